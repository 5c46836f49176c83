"""One version of our schema as an operation of a Django migration: ``onejob init``'s own text.

It is carried out on the alias that ONEJOB names and no other, where the project's routers allow
it, and recorded as ``onejob init`` records it: either may come first, and finds what the other did.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from django.db import router
from django.db.migrations.operations.base import Operation

from onejob.adapters import family
from onejob.django.inside import found_version
from onejob.stores.catalogue import Catalogue

_CREATED: Final = re.compile(
    r"^CREATE (?:OR REPLACE )?(TABLE|VIEW|SEQUENCE|FUNCTION) (?:IF NOT EXISTS )?\{schema\}(\w+)",
    re.MULTILINE,
)
#: In which order things go: what stands on others first.
_GOES: Final = ("VIEW", "TABLE", "FUNCTION", "SEQUENCE")

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS {prefix}migration (version integer NOT NULL PRIMARY KEY)"
)


class Install(Operation):
    """Bring the tables of onejob to a version.

    Backwards, version 1 drops them all, with what is in them. The later ones only add, so going
    back over one of them leaves what it added, and going forward again finds it there.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Models stay as they are: none of ours stands for a table."""

    def database_forwards(self, app_label: str, schema_editor: Any, *_: Any) -> None:
        """Carry the version's text out, unless the tables are there already."""
        catalogue = _catalogue(app_label, schema_editor)
        if catalogue is None:
            return
        text = dict(catalogue.migrations()).get(self.version)
        collects, alias = schema_editor.collect_sql, schema_editor.connection.alias
        if text is None or (
            not collects and (found_version(alias, catalogue) or 0) >= self.version
        ):
            return
        if self.version == 1:
            if catalogue.dialect == "postgresql":
                schema_editor.execute(f'CREATE SCHEMA IF NOT EXISTS "{catalogue.schema}"', None)
            schema_editor.execute(_TABLE.format(prefix=catalogue.prefix), None)
        for statement in _statements(catalogue.dialect, text):
            schema_editor.execute(statement, None)
        record = f"INSERT INTO {catalogue.prefix}migration (version) VALUES ({self.version})"  # noqa: S608 - a prefix that was checked, a number
        schema_editor.execute(record, None)

    def database_backwards(self, app_label: str, schema_editor: Any, *_: Any) -> None:
        """Drop everything at version 1; before it, leave what was added."""
        catalogue = _catalogue(app_label, schema_editor)
        if catalogue is None or self.version > 1:
            return
        made: dict[str, list[str]] = {kind: [] for kind in _GOES}
        for _version, text in catalogue.migrations():
            for kind, name in _CREATED.findall(text.replace(catalogue.prefix, "{schema}")):
                if name not in made[kind]:
                    made[kind].append(name)
        made["TABLE"].append("migration")
        for kind in _GOES:
            for name in reversed(made[kind]):
                schema_editor.execute(f"DROP {kind} IF EXISTS {catalogue.prefix}{name}", None)

    def describe(self) -> str:
        """Say what it does, for ``migrate --plan``."""
        return f"onejob: tables at version {self.version}"

    @property
    def migration_name_fragment(self) -> str:
        """Return what a generated migration would be named after."""
        return f"schema_{self.version:04}"


def _catalogue(app_label: str, editor: Any) -> Catalogue | None:
    """Return the texts for the database that is migrated; None where the tables do not belong."""
    from onejob.django import app

    alias = editor.connection.alias
    if alias != app.alias or not router.allow_migrate(alias, app_label):
        return None
    dialect = family(editor.connection.vendor)
    if dialect not in ("postgresql", "sqlite", "mariadb"):
        return None
    return Catalogue(dialect, app.schema)


def _statements(dialect: str, text: str) -> Iterator[str]:
    """Yield what one ``execute`` takes: a whole text on PostgreSQL, else statement by statement."""
    if dialect == "postgresql":
        yield text.strip()
        return
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
