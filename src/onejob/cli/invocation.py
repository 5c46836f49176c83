"""The options that every command has, before or after its name, and the store that they lead to."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from onejob.stores.postgres import PostgresStore
    from onejob.stores.sqlite import SqliteStore

    AnyStore = SqliteStore | PostgresStore

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

    def address(self) -> tuple[str, str]:
        """Return URL and schema: as said here, else ONEJOB_APP's, else the environment's."""
        url, schema = self.url, self.schema
        spec = os.environ.get("ONEJOB_APP", "")
        if spec and not (url and schema):
            from onejob.cli.application import address_of, load

            app_url, app_schema = address_of(load(spec))
            # Another store than the App's has nothing to do with the App's schema.
            schema = schema or (app_schema if url in (None, app_url) else None)
            url = url or app_url
        return (
            url or os.environ.get("ONEJOB_URL") or "sqlite:///onejob.db",
            schema or os.environ.get("ONEJOB_SCHEMA") or "onejob",
        )

    @contextmanager
    def store(self, *, create: bool = False) -> Iterator[AnyStore]:
        """Open the store and close it again. Without ``create`` its tables must be there."""
        from onejob.cli.store import closing_store

        url, schema = self.address()
        with closing_store(url, schema, create=create) as store:
            yield store


def store_options(function: F) -> F:
    """Give a command --url, --schema and --json, and an :class:`Invocation` as first argument."""

    @click.option("--url", metavar="URL", help="The store: sqlite:///FILE or postgresql://…")
    @click.option("--schema", metavar="NAME", help="Schema, or prefix of the tables.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.pass_context
    @functools.wraps(function)
    def command(
        ctx: click.Context, url: str | None, schema: str | None, as_json: bool, **options: Any
    ) -> Any:
        said = ctx.obj if isinstance(ctx.obj, Invocation) else Invocation()
        ctx.obj = said.and_then(url, schema, as_json)
        return function(ctx.obj, **options)

    return command  # type: ignore[return-value]  # click's decorators keep no signature
