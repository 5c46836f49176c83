"""Which store a URL means, with its driver imported only then; and what is said once at a start."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TypeAlias

from onejob import url as urls
from onejob.errors import UsageError
from onejob.runtime.events import log

if TYPE_CHECKING:
    from onejob.stores.mariadb import MariadbStore
    from onejob.stores.memory.store import MemoryStore
    from onejob.stores.postgres import PostgresStore
    from onejob.stores.redis import RedisStore
    from onejob.stores.sqlite import SqliteStore

    AnyStore: TypeAlias = MariadbStore | MemoryStore | PostgresStore | RedisStore | SqliteStore


def open_store(url: urls.Url, schema: str) -> AnyStore:
    """Return the store of a URL, with its driver imported now. Opens no connection."""
    match url.dialect:
        case "sqlite":
            from onejob.stores.sqlite import SqliteStore

            return SqliteStore(url.target, schema=schema)
        case "postgresql":
            try:
                from onejob.stores.postgres import PostgresStore
            except ImportError as error:
                raise UsageError(
                    "postgresql:// needs psycopg, which is not installed. Run: "
                    "pip install onejob[postgres]"
                ) from error
            return PostgresStore(url.target, schema=schema)
        case "mariadb":
            try:
                from onejob.stores.mariadb import MariadbStore
            except ImportError as error:
                raise UsageError(
                    "mariadb:// and mysql:// need PyMySQL, which is not installed. Run: "
                    "pip install onejob[mysql]"
                ) from error
            return MariadbStore(url.target, schema=schema, where=url.where)
        case "redis":
            try:
                from onejob.stores.redis import RedisStore
            except ImportError as error:
                raise UsageError(
                    f"{url.where} needs the Redis driver, which is not installed. Run: "
                    "pip install onejob[redis]"
                ) from error
            return RedisStore(url.target, schema=schema, where=url.where)
        case "memory":
            from onejob.stores.memory.store import MemoryStore

            return MemoryStore(lambda: time.time_ns() // 1_000)


_said: set[str] = set()


def say(text: str) -> None:
    """Say something once in this process: to the log, and to people on standard error."""
    if text not in _said:
        _said.add(text)
        log.info("%s", text)
        sys.stderr.write(f"{text}\n")
