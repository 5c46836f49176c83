"""Redis and Valkey, for locks, fences, periods and guarded ticks: one script a command.

A server runs one script at a time, so a command is atomic. What it promises beyond that is what
the server is configured for: without ``appendonly yes`` a restart forgets every lock, and a replica
that is promoted may not have the last of them. Tokens rise all the same (they are never below the
server's clock in microseconds), so a resource that compares them refuses whoever held before.

``redis://host:6379/0``, ``rediss://`` for TLS, ``valkey://``; ``redis+sentinel://host:26379,…/
service/0`` asks sentinels for the master; ``redis+cluster://host:6379`` is a cluster, where one
App's keys stand in one slot. With ``?wait=1&wait_ms=200``, so many replicas must have a lock or a
claim that has changed hands, in that time, or its outcome is reported as unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from onejob.commands.command import Command, Row
from onejob.core.time import SECOND, Span
from onejob.errors import OutcomeUnknown, StoreUnavailable, UnsupportedByStore
from onejob.stores.migrate import Migrated
from onejob.stores.protocol import Statement, Style, Within
from onejob.stores.redis_url import address
from onejob.stores.scripts import Script, script

T = TypeVar("T")

#: How long one connection attempt, and one command, may take.
PATIENCE_SECONDS = 5.0

#: The commands after which something new is held.
_TAKING = frozenset({"lease_acquire", "lease_break", "claim_take"})


class RedisStore:
    """A store in the keys of one prefix: ``{schema}:…``."""

    dialect = "redis"

    def __init__(self, url: str, *, schema: str = "onejob", where: str = "redis") -> None:
        self.where, self.schema = where, schema
        self._address = address(url)
        self._root = f"{{{schema}}}:"
        self._client: Any = None

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command. ``within`` is refused: there are no transactions to join."""
        if within is not None:
            raise _no_transactions()
        return self.carry(command, self._connected())

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]:
        """Refuse: there is nothing that somebody else's connection could send."""
        raise _no_transactions()

    @contextmanager
    def transaction(self, *, longest: Span) -> Iterator[Any]:
        """Refuse: what is written here can't be held together with what your database holds."""
        raise _no_transactions()
        yield

    def lane(self, *, patience: Span) -> RedisLane:
        """Open a connection for a keeper, each of whose commands ends within ``patience``."""
        return RedisLane(self, patience / SECOND)

    def version(self) -> int | None:
        """Return the version of the layout; there is nothing to install."""
        self.check()
        return 1

    def check(self) -> None:
        """Raise StoreUnavailable unless the server answers."""
        with self._mapped(repeatable=True, what="PING"):
            self._connected().ping()

    def init(self) -> Migrated:
        """Make sure that the server answers; it has no tables."""
        self.check()
        return Migrated(1, 1, ())

    def script(self) -> str:
        """Refuse: there is nothing to install."""
        raise UnsupportedByStore(
            "print a schema", "Redis", instead="It has none: keys come and go as they are used."
        )

    def durability(self) -> dict[str, Any]:
        """Return what the server says about what it keeps: persistence, eviction, replicas."""
        client = self._connected()
        with self._mapped(repeatable=True, what="INFO"):
            told: dict[str, Any] = {}
            for section in ("persistence", "replication", "memory"):
                told |= client.info(section)
        return told

    def reap(self) -> None:
        """Keep what is idle: the pool has a connection a thread, and the server many."""

    def close(self) -> None:
        """Close every connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def connect(self, seconds: float) -> Any:
        """Return a client whose every command ends within ``seconds``. Opens no connection."""
        return self._address.client(
            socket_timeout=seconds,
            socket_connect_timeout=min(seconds, PATIENCE_SECONDS),
            # Ours to decide: what may be asked twice is, and nothing else.
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    def _connected(self) -> Any:
        if self._client is None:
            self._client = self.connect(PATIENCE_SECONDS)
        return self._client

    def carry(self, command: Command[T], client: Any) -> T:
        """Carry a command out over this client, and again where that is safe."""
        if self._address.wait and command.name in _TAKING:
            # WAIT speaks of what its own connection has written.
            with self._reached(client.client) as one:
                answer = self._carry(command, one)
                self._wait(one, command.name)
            return answer
        return self._carry(command, client)

    def _carry(self, command: Command[T], client: Any) -> T:
        text = script(command.name)
        given = json.dumps(dict(command.parameters), ensure_ascii=False, separators=(",", ":"))
        repeatable = command.repeatable or not command.writes
        with self._mapped(repeatable=repeatable, what=command.name):
            try:
                rows = self._evaluated(client, text, given)
            except redis.ConnectionError:
                if not repeatable:
                    raise
                rows = self._evaluated(client, text, given)
        return command.decode(rows)

    def _evaluated(self, client: Any, text: Script, given: str) -> Sequence[Row]:
        try:
            rows: list[Row] = self._sent(client, "EVALSHA", text.digest, given)
        except NoScriptError:
            # A server that has restarted, or another one after a failover. Nothing was done.
            rows = self._sent(client, "EVAL", text.text, given)
        return rows

    def _sent(self, client: Any, word: str, script: str, given: str) -> list[Row]:
        """Send one script, straight over a connection where there is one: at half the cost."""
        pool = getattr(client, "connection_pool", None)
        if pool is None or getattr(client, "connection", None) is not None:
            return client.execute_command(word, script, 1, self._root, given)  # type: ignore[no-any-return]
        connection = self._reached(pool.get_connection)
        try:
            connection.send_command(word, script, 1, self._root, given)
            return connection.read_response()  # type: ignore[no-any-return]
        except ResponseError:
            raise
        except BaseException:
            # Whatever comes now would be read as the answer to something else.
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def _reached(self, connect: Callable[[], Any]) -> Any:
        """Reach the server: a failure here is no unknown outcome, as nothing was sent yet."""
        with self._mapped(repeatable=True, what="connect"):
            return connect()

    def _wait(self, client: Any, what: str) -> None:
        with self._mapped(repeatable=False, what=what):
            have = client.wait(self._address.wait, self._address.wait_ms)
        if have < self._address.wait:
            why = f"{have} of {self._address.wait} replicas had it after {self._address.wait_ms} ms"
            raise OutcomeUnknown(what, self.where, why)

    @contextmanager
    def _mapped(self, *, repeatable: bool, what: str) -> Iterator[None]:
        """Turn the driver's errors into ours, in this one place."""
        try:
            yield
        except (BusyLoadingError, AuthenticationError, AuthorizationError, ReadOnlyError) as error:
            raise StoreUnavailable(self.where, str(error)) from error
        except ResponseError as error:
            self._refused(error)
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            if repeatable:
                raise StoreUnavailable(self.where, _first_line(error)) from error
            raise OutcomeUnknown(what, self.where, _first_line(error)) from error
        except RedisError as error:
            raise StoreUnavailable(self.where, _first_line(error)) from error

    def _refused(self, error: ResponseError) -> NoReturn:
        text = str(error)
        # Some releases of the driver take the word OOM off.
        if "> 'maxmemory'" in text or text.startswith(
            ("NOAUTH", "WRONGPASS", "OOM", "MISCONF", "NOREPLICAS", "READONLY")
        ):
            raise StoreUnavailable(self.where, text) from error
        raise error


class RedisLane:
    """A keeper's own connection."""

    def __init__(self, store: RedisStore, seconds: float) -> None:
        self._store = store
        self._client = store.connect(seconds)

    def run(self, command: Command[T]) -> T:
        """Carry out a command."""
        return self._store.carry(command, self._client)

    def listen(self) -> bool:
        """There are no hints: polls are the truth here."""
        return False

    def fileno(self) -> int | None:
        """There is nothing to watch."""
        return None

    def hinted(self) -> bool:
        """There are no hints."""
        return False

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _no_transactions() -> UnsupportedByStore:
    return UnsupportedByStore(
        "join your transaction",
        "Redis",
        instead="Compare the fencing token where you write: app.fence of an App on your database, "
        "or a script that checks it.",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
