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
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoScriptError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from onejob.commands.command import Command, Row
from onejob.core.time import SECOND, Span
from onejob.errors import OutcomeUnknown, StoreUnavailable, UnsupportedByStore
from onejob.stores.migrate import Migrated
from onejob.stores.protocol import Statement, Style, Within
from onejob.stores.redis_line import Line, Lines, lines
from onejob.stores.redis_url import address
from onejob.stores.scripts import script

T = TypeVar("T")

#: How long one connection attempt, and one command, may take.
PATIENCE_SECONDS = 5.0

#: The commands after which something new is held.
_TAKING = frozenset({"lease_acquire", "lease_break", "claim_take"})

#: Refused before anything was done.
_NOT_NOW = (
    *("NOAUTH", "WRONGPASS", "NOPERM", "OOM", "MISCONF", "NOREPLICAS", "READONLY", "LOADING"),
    *("BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"),
)

_from_json = json.JSONDecoder().decode
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class RedisStore:
    """A store in the keys of one prefix: ``{schema}:…``."""

    dialect = "redis"

    def __init__(self, url: str, *, schema: str = "onejob", where: str = "redis") -> None:
        self.where, self.schema = where, schema
        self._address = address(url)
        self._root = f"{{{schema}}}:"

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command. ``within`` is refused: there are no transactions to join."""
        if within is not None:
            raise _no_transactions()
        return self.carry(command, self._opened[1])

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
            self._opened[0].ping()

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
        client, _ = self._opened
        with self._mapped(repeatable=True, what="INFO"):
            told: dict[str, Any] = {}
            for section in ("persistence", "replication", "memory"):
                told |= client.info(section)
        return told

    def reap(self) -> None:
        """Close connections that have been idle for long enough."""
        self._opened[1].reap()

    def close(self) -> None:
        """Close every idle connection."""
        client, lines = self._opened
        lines.hang_up()
        client.close()

    def lines(self, seconds: float) -> tuple[Any, Lines]:
        """Return a client whose every command ends within ``seconds``, and lines of its kind."""
        options = {
            "socket_timeout": seconds,
            "socket_connect_timeout": min(seconds, PATIENCE_SECONDS),
            # Ours to decide: what may be asked twice is, and nothing else.
            "retry": Retry(NoBackoff(), 0),
            "decode_responses": True,
            # The older one: a server pushes nothing in between.
            "protocol": 2,
        }
        # A cluster's connects here.
        client = self._reached(lambda: self._address.client(**options))
        return client, lines(client, self._reached)

    @cached_property
    def _opened(self) -> tuple[Any, Lines]:
        return self.lines(PATIENCE_SECONDS)

    def carry(self, command: Command[T], lines: Lines) -> T:
        """Carry a command out over one of these lines, and again where that is safe."""
        repeatable = command.repeatable or not command.writes
        try:
            try:
                rows = self._asked(command, lines, once=not repeatable)
            except redis.ConnectionError:
                if not repeatable:
                    raise
                lines.hang_up()
                rows = self._asked(command, lines, once=False)
        except (RedisError, RedisClusterException, OSError) as error:
            self._raise(error, repeatable=repeatable, what=command.name)
        return command.decode(rows)

    def _asked(self, command: Command[Any], lines: Lines, *, once: bool) -> list[Row]:
        text, given = (
            script(command.name),
            _as_json({k: v for k, v in command.parameters.items() if v is not None}),
        )
        with lines.lend() as line:
            if once:
                line.refresh()
            try:
                answer = line.evaluate("EVALSHA", text.digest, self._root, given)
            except NoScriptError:
                # A server that has restarted, or another one after a failover. Nothing was done.
                answer = line.evaluate("EVAL", text.text, self._root, given)
            rows: list[Row] = _from_json(answer)
            if self._address.wait and _has_taken(command, rows):
                self._wait(line, command.name)
        return rows

    def _reached(self, connect: Callable[[], Any]) -> Any:
        """Reach the server: a failure here is no unknown outcome, as nothing was sent yet."""
        with self._mapped(repeatable=True, what="connect"):
            try:
                return connect()
            except redis.ConnectionError:
                # Cut while it was made, as in a failover.
                return connect()

    def _wait(self, line: Line, what: str) -> None:
        replicas, ms = self._address.wait, self._address.wait_ms
        with self._mapped(repeatable=False, what=what):
            have = line.wait(f"{self._root}wait", replicas, ms=ms)
        if have < replicas:
            raise OutcomeUnknown(
                what, self.where, f"{have} of {replicas} replicas had it after {ms} ms"
            )

    @contextmanager
    def _mapped(self, *, repeatable: bool, what: str) -> Iterator[None]:
        try:
            yield
        except (RedisError, RedisClusterException, OSError) as error:
            self._raise(error, repeatable=repeatable, what=what)

    def _raise(self, error: Exception, *, repeatable: bool, what: str) -> NoReturn:
        """Turn the driver's errors into ours, in this one place."""
        text = _first_line(error)
        match error:
            case BusyLoadingError() | AuthenticationError() | AuthorizationError():
                raise StoreUnavailable(self.where, text) from error
            case ResponseError() if "WRONGTYPE" in text:
                why = (
                    f"somebody else writes to the keys {self._root}… (WRONGTYPE). Use another "
                    "schema=, or another database"
                )
                raise StoreUnavailable(self.where, why) from error
            # Some releases of the driver take the first word off.
            case ResponseError() if "> 'maxmemory'" in text or text.startswith(_NOT_NOW):
                raise StoreUnavailable(self.where, text) from error
            case ResponseError() if "user_script" in text:
                raise error  # our own mistake
            case ResponseError():
                raise StoreUnavailable(self.where, text) from error
            case redis.ConnectionError() | redis.TimeoutError() | OSError() if not repeatable:
                raise OutcomeUnknown(what, self.where, text) from error
            case _:
                raise StoreUnavailable(self.where, text) from error


class RedisLane:
    """A keeper's own connection."""

    def __init__(self, store: RedisStore, seconds: float) -> None:
        self._store = store
        self._client, self._lines = store.lines(seconds)

    def run(self, command: Command[T]) -> T:
        """Carry out a command."""
        return self._store.carry(command, self._lines)

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
        self._lines.hang_up()
        self._client.close()


def _has_taken(command: Command[Any], rows: Sequence[Row]) -> bool:
    """Tell whether this answer gave something: a refusal need not be known to any replica."""
    owner = command.parameters.get("owner")
    return command.name in _TAKING and bool(rows) and (owner is None or owner in rows[0])


def _no_transactions() -> UnsupportedByStore:
    return UnsupportedByStore(
        "join your transaction",
        "Redis",
        instead="Compare the fencing token where you write: app.fence of an App on your database, "
        "or a script that checks it.",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
