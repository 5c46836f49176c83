"""The options that every command has, before or after its name, and the App they lead to."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onejob.errors import SchemaMismatch, UsageError

if TYPE_CHECKING:
    from onejob.app import App
    from onejob.stores.postgres import PostgresStore
    from onejob.stores.sqlite import SqliteStore

    AnyStore = SqliteStore | PostgresStore

#: How the message about missing or old tables ends: in what to run.
INIT = "onejob init"

#: The schema where nobody says another.
SCHEMA = "onejob"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Invocation:
    """What was said on the command line so far; None where nothing was."""

    url: str | None = None
    schema: str | None = None
    as_json: bool = False

    def and_then(self, url: str | None, schema: str | None, as_json: bool) -> Invocation:
        """Add what a command further right says; it has the last word."""
        return Invocation(url or self.url, schema or self.schema, as_json or self.as_json)

    def app(self) -> App:
        """Return an App over the store that is meant; nothing is opened yet.

        That is --url, else the App of ONEJOB_APP, else ONEJOB_URL, else onejob.db right here.
        """
        from onejob.app import App
        from onejob.cli.application import load
        from onejob.url import DEFAULT

        spec = os.environ.get("ONEJOB_APP")
        if spec and not self.url:
            return self.agreed(load(spec), spec)
        # Said in full, so that looking never creates a file.
        url = self.url or os.environ.get("ONEJOB_URL") or DEFAULT
        schema = self.schema or os.environ.get("ONEJOB_SCHEMA") or SCHEMA
        return App(url, schema=schema, single_machine=True)

    def named(self, spec: str, *, fires: bool = False) -> App:
        """Load the App of ``MODULE:APP``; --url and --schema stand in for the ONEJOB_URL and
        ONEJOB_SCHEMA that it may read."""
        from onejob.app import App
        from onejob.cli.application import load

        if self.url:
            os.environ["ONEJOB_URL"] = self.url
        if self.schema:
            os.environ["ONEJOB_SCHEMA"] = self.schema
        app = load(spec, fires=fires)
        if self.schema and self.schema != app.schema:
            raise UsageError(
                f"{spec} names a schema of its own, {app.schema!r}, which --schema cannot change. "
                "Leave --schema out."
            )
        if self.url and repr(App(self.url, name=app.name)) != repr(app):
            raise UsageError(
                f"{spec} names a store of its own, {app!r}, which --url cannot change."
            )
        return app

    def agreed(self, app: App, spec: str) -> App:
        """Return the App, unless --schema contradicts it."""
        if self.schema and self.schema != app.schema:
            raise UsageError(
                f"{spec} keeps its tables in schema {app.schema!r}, not {self.schema!r}. "
                "Leave --schema out, or give --url as well."
            )
        return app

    @contextmanager
    def opened(self, spec: str = "", *, check: bool = True, fires: bool = False) -> Iterator[App]:
        """Open the App of ``spec``, or the one meant without, for one command; close it again."""
        app = self.named(spec, fires=fires) if spec else self.app()
        if app.store.dialect == "memory":
            raise UsageError("memory:// lives and dies with one process: there is nothing to see.")
        try:
            if check:
                self._check(app, spec)
            yield app
        finally:
            app.store.close()

    def line(self, command: str, app: App, spec: str = "") -> str:
        """Return what to type for another command over the same store, from wherever it is.

        A URL may hold a password, so only that of a file is repeated.
        """
        spec = spec or os.environ.get("ONEJOB_APP", "")
        program = click.get_current_context().find_root().info_name or ""
        if program.endswith(" onejob"):  # of a framework, which knows the App: manage.py onejob
            return f"python {program}{command.removeprefix('onejob')}"
        if spec and not self.url:
            return f"ONEJOB_APP={shlex.quote(spec)} {command}"
        if self.url:
            command += f" --url {shlex.quote(self.url) if app.store.dialect == 'sqlite' else 'URL'}"
        return command if app.schema == SCHEMA else f"{command} --schema {app.schema}"

    def _check(self, app: App, spec: str) -> None:
        """Check the tables; where they are missing or old, say what makes them in this store."""
        try:
            app.check()
        except SchemaMismatch as error:
            text, line = str(error), self.line(INIT, app, spec)
            if error.init.startswith(INIT):
                meant = self.url or spec or os.environ.get("ONEJOB_APP")
                if not (meant or os.environ.get("ONEJOB_URL")):
                    line += ", or, where your code names the store, ONEJOB_APP=MODULE:APP " + INIT
                error.args = (text.removesuffix(error.init) + line,)
            raise

    @contextmanager
    def store(self) -> Iterator[AnyStore]:
        """Open the store alone."""
        with self.opened() as app:
            store: Any = app.store
            yield store


def store_options(function: F) -> F:
    """Give a command --url, --schema and --json, and an :class:`Invocation` as first argument."""

    @click.option(
        "--url",
        metavar="URL",
        help="The store: sqlite:///FILE, postgresql://…, mariadb://… or redis://…",
    )
    @click.option("--schema", metavar="NAME", help="Schema, or prefix of the tables.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @functools.wraps(function)
    def command(url: str | None, schema: str | None, as_json: bool, **options: Any) -> Any:
        ctx = click.get_current_context()
        said = ctx.obj if isinstance(ctx.obj, Invocation) else Invocation()
        ctx.obj = said.and_then(url, schema, as_json)
        return function(ctx.obj, **options)

    return command  # type: ignore[return-value]  # click's decorators keep no signature
