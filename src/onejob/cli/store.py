"""Open the store that a URL names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onejob.core.names import check_schema
from onejob.errors import SchemaMismatch, StoreUnavailable, UsageError
from onejob.url import parse

if TYPE_CHECKING:
    from onejob.stores.postgres import PostgresStore
    from onejob.stores.sqlite import SqliteStore

    AnyStore = SqliteStore | PostgresStore


def open_store(url: str, schema: str) -> AnyStore:
    """Return the store; nothing is opened yet. UsageError for a URL that names none."""
    found, schema = parse(url), check_schema(schema)
    match found.dialect:
        case "sqlite":
            from onejob.stores.sqlite import SqliteStore

            return SqliteStore(found.target, schema=schema)
        case "postgresql":
            try:
                from onejob.stores.postgres import PostgresStore
            except ImportError as error:
                raise UsageError(
                    "PostgreSQL needs its driver. Run: pip install 'onejob[postgres]'"
                ) from error
            return PostgresStore(found.target, schema=schema)
        case "memory":
            raise UsageError("memory:// lives and dies with one process: there is nothing to see.")


@contextmanager
def closing_store(url: str, schema: str, *, create: bool) -> Iterator[AnyStore]:
    """Open a store for one command. Looking at a SQLite file never makes one."""
    store = open_store(url, schema)
    if not create and store.dialect == "sqlite" and not os.path.exists(store.where):
        from onejob.stores.migrate import latest

        raise SchemaMismatch(store.where, found=None, wanted=latest(store.catalogue))
    directory = os.path.dirname(store.where)
    if create and store.dialect == "sqlite" and not os.path.isdir(directory):
        raise StoreUnavailable(
            store.where, "there is no such folder", advice=f"Make it first: mkdir -p {directory}"
        )
    try:
        if not create:
            store.check()
        yield store
    finally:
        store.close()
