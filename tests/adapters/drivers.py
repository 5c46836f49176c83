"""Every driver that ``within=`` knows, behind one face: a session with a transaction of its own.

A session is opened on a database, writes rows of its own, and is given to onejob as it is. Whoever
drives it, ``do`` calls the twin of its colour, and ``carry`` awaits where there is something to.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from inspect import isawaitable
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import psycopg2
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session as OrmSession
from sqlalchemy.orm import scoped_session, sessionmaker


class Session:
    """What the tests do with a connection; ``given`` is what within= gets."""

    colour = "sync"

    def __init__(self, given: Any, raw: Any = None) -> None:
        self.given, self.raw = given, given if raw is None else raw

    def do(self, what: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of onejob's, or its async twin."""
        return getattr(what, name)(*args, **kwargs)

    def carry(self, answer: Any) -> Any:
        """Return an answer; await it where it is to be awaited."""
        return answer

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function where this driver's code runs."""
        return function()

    def begin(self) -> None:
        """Begin a transaction, where that is not the driver's own doing."""

    def execute(self, text: str) -> Any:
        return self.raw.execute(text)

    def savepoint(self) -> None:
        self.execute("SAVEPOINT here")

    def back_to_savepoint(self) -> None:
        self.execute("ROLLBACK TO SAVEPOINT here")

    def commit(self) -> None:
        self.carry(self.raw.commit())

    def rollback(self) -> None:
        self.carry(self.raw.rollback())


class AsyncSessionOf(Session):
    """The same for a driver in a loop, which runs while something is awaited."""

    colour = "async"

    def __init__(self, runner: asyncio.Runner, given: Any, raw: Any = None) -> None:
        super().__init__(given, raw)
        self._runner = runner

    def do(self, what: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.carry(getattr(what, f"a{name}")(*args, **kwargs))

    def carry(self, answer: Any) -> Any:
        return self.call(lambda: answer)

    def call(self, function: Callable[[], Any]) -> Any:
        async def called() -> Any:
            answer = function()
            return await answer if isawaitable(answer) else answer

        return self._runner.run(called())

    def execute(self, text: str) -> Any:
        return self.carry(self.raw.execute(text))


class Cursors(Session):
    """psycopg2: a connection has no ``execute``."""

    def execute(self, text: str) -> Any:
        with self.raw.cursor() as cursor:
            cursor.execute(text)


class Asyncpg(AsyncSessionOf):
    """asyncpg: a transaction is an object of its own."""

    def begin(self) -> None:
        if not self.raw.is_in_transaction():
            self._transaction = self.raw.transaction()
            self.carry(self._transaction.start())

    def commit(self) -> None:
        self.carry(self._transaction.commit())

    def rollback(self) -> None:
        self.carry(self._transaction.rollback())

    def execute(self, text: str) -> Any:
        self.begin()
        return super().execute(text)


class Alchemy(Session):
    """SQLAlchemy, with the savepoints that it makes itself."""

    def execute(self, text: str) -> Any:
        return self.carry(self.raw.execute(sa.text(text)))

    def savepoint(self) -> None:
        # As an ORM user makes one; on SQLite the driver below has not begun by then.
        self.execute("SAVEPOINT here")


class AsyncAlchemy(AsyncSessionOf, Alchemy):
    def execute(self, text: str) -> Any:
        return Alchemy.execute(self, text)


class BridgedAlchemy(AsyncAlchemy):
    """Sync code that SQLAlchemy's own bridge runs below an AsyncSession."""

    colour = "sync"

    def bridge(self, run: Any, complete: bool) -> None:
        """Fence a sync Run there."""
        self.carry(self.raw.run_sync(lambda s: run.fence(within=s, complete=complete)))

    def do(self, what: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        def call(session: OrmSession) -> Any:
            return getattr(_over(what, session), name)(*args, **_given(kwargs, session))

        return self.carry(self.raw.run_sync(call))


def _over(what: Any, session: OrmSession) -> Any:
    """Exchange the AsyncSession for the sync one inside it, in what was made with within=."""
    return what.__class__(**{**_fields(what), "within": session}) if _has_within(what) else what


def _has_within(what: Any) -> bool:
    return getattr(what, "within", None) is not None


def _fields(what: Any) -> dict[str, Any]:
    return {name: getattr(what, name) for name in what.__dataclass_fields__}


def _given(kwargs: dict[str, Any], session: OrmSession) -> dict[str, Any]:
    return {**kwargs, "within": session} if "within" in kwargs else kwargs


class Django(Session):
    """Django: a transaction is a block, entered here and left by commit or rollback."""

    def __init__(self, given: Any, alias: str) -> None:
        from django.db import connections

        super().__init__(given, connections[alias])
        self._alias = alias
        self._block: Any = None

    def execute(self, text: str) -> Any:
        self.begin()
        with self.raw.cursor() as cursor:
            cursor.execute(text)

    def begin(self) -> None:
        from django.db import transaction

        if self._block is None:
            self._block = transaction.atomic(using=self._alias)
            self._block.__enter__()

    def commit(self) -> None:
        block, self._block = self._block, None
        block.__exit__(None, None, None)

    def rollback(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            self.raw.needs_rollback = True
            block.__exit__(None, None, None)


Opening = Callable[[ExitStack, str], Session]


def _psycopg(stack: ExitStack, url: str) -> Session:
    return Session(stack.enter_context(_closing(psycopg.connect(url))))


def _psycopg_async(stack: ExitStack, url: str) -> Session:
    runner = stack.enter_context(asyncio.Runner())
    connection = runner.run(psycopg.AsyncConnection.connect(url))
    stack.callback(lambda: runner.run(connection.close()))
    return AsyncSessionOf(runner, connection)


def _psycopg2(stack: ExitStack, url: str) -> Session:
    return Cursors(stack.enter_context(_closing(psycopg2.connect(url))))


def _asyncpg(stack: ExitStack, url: str) -> Session:
    runner = stack.enter_context(asyncio.Runner())

    async def connect() -> Any:
        return await asyncpg.connect(url)

    connection = runner.run(connect())
    stack.callback(lambda: runner.run(connection.close()))
    return Asyncpg(runner, connection)


def _asyncpg_pool(stack: ExitStack, url: str) -> Session:
    runner = stack.enter_context(asyncio.Runner())

    async def connect() -> Any:
        pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
        return pool, await pool.acquire()

    async def close() -> None:
        pool.terminate()

    pool, connection = runner.run(connect())
    stack.callback(lambda: runner.run(close()))
    return Asyncpg(runner, connection)


def _alchemy(driver: str, kind: str) -> Opening:
    def opening(stack: ExitStack, url: str) -> Session:
        engine = sa.create_engine(_url(url, driver))
        stack.callback(engine.dispose)
        if kind == "connection":
            return Alchemy(stack.enter_context(engine.connect()))
        if kind == "scoped":
            scoped = scoped_session(sessionmaker(engine))
            stack.callback(scoped.remove)
            return Alchemy(scoped)
        return Alchemy(stack.enter_context(OrmSession(engine)))

    return opening


def _async_alchemy(driver: str, kind: str) -> Opening:
    def opening(stack: ExitStack, url: str) -> Session:
        runner = stack.enter_context(asyncio.Runner())
        engine = create_async_engine(_url(url, driver))
        stack.callback(lambda: runner.run(engine.dispose()))
        if kind == "connection":

            async def connect() -> Any:
                return await engine.connect()

            connection = runner.run(connect())
            stack.callback(lambda: runner.run(connection.close()))
            return AsyncAlchemy(runner, connection)
        if kind == "scoped":
            scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
            stack.callback(lambda: runner.run(scoped.remove()))
            return AsyncAlchemy(runner, scoped)
        session = AsyncSession(engine)
        stack.callback(lambda: runner.run(session.close()))
        return (BridgedAlchemy if kind == "bridged" else AsyncAlchemy)(runner, session)

    return opening


def _django(as_alias: bool) -> Opening:
    def opening(stack: ExitStack, url: str) -> Session:
        from django.db import connection, connections

        alias = stack.enter_context(django_database(url))
        given: Any = alias if as_alias else connections[alias]
        if not as_alias and alias == "default":
            given = connection  # what `from django.db import connection` gives: a proxy
        session = Django(given, alias)
        stack.callback(session.rollback)
        return session

    return opening


def _sqlite3(stack: ExitStack, url: str) -> Session:
    return Session(stack.enter_context(_closing(sqlite3.connect(_path(url)))))


def _aiosqlite(stack: ExitStack, url: str) -> Session:
    runner = stack.enter_context(asyncio.Runner())

    async def connect() -> Any:
        return await aiosqlite.connect(_path(url))

    connection = runner.run(connect())
    stack.callback(lambda: runner.run(connection.close()))
    return AsyncSessionOf(runner, connection)


POSTGRESQL: dict[str, Opening] = {
    "psycopg": _psycopg,
    "psycopg-async": _psycopg_async,
    "psycopg2": _psycopg2,
    "asyncpg": _asyncpg,
    "asyncpg-pool": _asyncpg_pool,
    "sqlalchemy-connection-psycopg": _alchemy("psycopg", "connection"),
    "sqlalchemy-session-psycopg": _alchemy("psycopg", "session"),
    "sqlalchemy-session-psycopg2": _alchemy("psycopg2", "session"),
    "sqlalchemy-scoped-psycopg2": _alchemy("psycopg2", "scoped"),
    "sqlalchemy-async-connection-asyncpg": _async_alchemy("asyncpg", "connection"),
    "sqlalchemy-async-session-asyncpg": _async_alchemy("asyncpg", "session"),
    "sqlalchemy-async-session-psycopg": _async_alchemy("psycopg", "session"),
    "sqlalchemy-async-scoped-asyncpg": _async_alchemy("asyncpg", "scoped"),
    "sqlalchemy-bridged-asyncpg": _async_alchemy("asyncpg", "bridged"),
    "django-connection": _django(as_alias=False),
    "django-alias": _django(as_alias=True),
}

SQLITE: dict[str, Opening] = {
    "sqlite3": _sqlite3,
    "aiosqlite": _aiosqlite,
    "sqlalchemy-connection-pysqlite": _alchemy("pysqlite", "connection"),
    "sqlalchemy-session-pysqlite": _alchemy("pysqlite", "session"),
    "sqlalchemy-async-session-aiosqlite": _async_alchemy("aiosqlite", "session"),
    "django-sqlite-connection": _django(as_alias=False),
    "django-sqlite-alias": _django(as_alias=True),
}

EVERY = [*POSTGRESQL, *SQLITE]


@contextmanager
def opened(name: str, url: str) -> Iterator[Session]:
    """Open a session on the database at ``url``; roll back and close at the end."""
    with ExitStack() as stack:
        yield {**POSTGRESQL, **SQLITE}[name](stack, url)


@contextmanager
def django_database(url: str) -> Iterator[str]:
    """Make this database known to Django, and return its alias; close its connection at the end."""
    import django
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
    django.setup()
    alias = "lite" if url.startswith("sqlite") else "default"
    databases = {"default": {"ENGINE": "django.db.backends.dummy"}, alias: _for_django(url)}
    before = connections.__dict__.get("settings")
    connections.settings = connections.configure_settings(databases)
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        if before is None:
            del connections.settings
        else:
            connections.settings = before


def _for_django(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": _path(url)}
    parts = sa.make_url(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.database,
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.host or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": dict(parts.query),
    }


def _url(url: str, driver: str) -> sa.URL:
    parts = sa.make_url(url)
    query = {"ssl": "disable"} if driver == "asyncpg" and parts.query else parts.query
    return parts.set(drivername=f"{parts.get_backend_name()}+{driver}", query=query)


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


@contextmanager
def _closing(connection: Any) -> Iterator[Any]:
    try:
        yield connection
    finally:
        connection.close()
