"""Install and upgrade the schema: a numbered list of texts, each applied once, in order.

A fresh schema is made by the same texts as an upgraded one, so the two are equal by construction.
An older library refuses a schema that is newer than it knows (it can't tell what changed); a newer
one asks for ``onejob init``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onejob.errors import SchemaMismatch
from onejob.stores.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Migrated:
    """What ``onejob init`` did: the version found (None: nothing there) and those applied."""

    before: int | None
    after: int
    applied: tuple[int, ...]


def latest(catalogue: Catalogue) -> int:
    """Return the version of the schema that this release is written for."""
    return catalogue.migrations()[-1][0]


def mismatch(catalogue: Catalogue, where: str, found: int | None = None) -> SchemaMismatch:
    """Return the error about these tables; it says what makes them here, and nowhere else.

    Of a URL that may hold a password only its place is told.
    """
    url = "URL"
    if catalogue.dialect == "sqlite":
        url = shlex.quote(f"sqlite:///{where}")
    line = f"onejob init --url {url}"
    if catalogue.schema != "onejob":
        line += f" --schema {catalogue.schema}"
    return SchemaMismatch(where, found=found, wanted=latest(catalogue), init=line)


def check(catalogue: Catalogue, found: int | None, where: str) -> None:
    """Raise SchemaMismatch unless the schema is exactly the one this release knows."""
    if found != latest(catalogue):
        raise mismatch(catalogue, where, found)


def pending(catalogue: Catalogue, found: int | None, where: str) -> tuple[tuple[int, str], ...]:
    """Return the texts still to be applied; refuse a schema newer than this release."""
    if found is not None and found > latest(catalogue):
        raise mismatch(catalogue, where, found)
    return tuple(
        (version, text) for version, text in catalogue.migrations() if version > (found or 0)
    )


def apply(
    catalogue: Catalogue,
    found: int | None,
    where: str,
    *,
    script: Callable[[str], object],
    record: Callable[[int], object],
) -> Migrated:
    """Apply what is pending through the store's own ``script`` and ``record``."""
    applied: list[int] = []
    for version, text in pending(catalogue, found, where):
        script(text)
        record(version)
        applied.append(version)
    return Migrated(found, latest(catalogue), tuple(applied))


_RECORD = "INSERT INTO {prefix}migration (version) VALUES ({version});"


def as_script(catalogue: Catalogue, opening: Sequence[str], closing: Sequence[str] = ()) -> str:
    """Return the whole schema as one text that a person can review and run."""
    parts = [*opening]
    for version, text in catalogue.migrations():
        parts.append(f"-- migration {version}\n{text.strip()}")
        parts.append(_RECORD.format(prefix=catalogue.prefix, version=version))
    return "\n\n".join([*parts, *closing]) + "\n"
