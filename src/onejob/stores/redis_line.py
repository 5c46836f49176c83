"""A conversation with a Redis server: a script is sent, its answer is read.

The driver connects (TLS, passwords, sentinels, time limits) and reads replies. Its pool, and its
packing of commands, are passed by: together they took longer than the scripts that they carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from typing import Any, Protocol

from redis.exceptions import ResponseError

from onejob.stores.connections import Connections

_SCRIPT = b"*5\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$1\r\n1\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"


class Line(Protocol):
    """What a command goes over."""

    def evaluate(self, word: str, script: str, root: str, given: str) -> str:
        """Send EVAL or EVALSHA with one key and one argument; return its answer."""
        ...

    def wait(self, mark: str, replicas: int, *, ms: int) -> int:
        """Return how many replicas have what the master had when it answered the last script.

        Asked for ``ms`` milliseconds at the most.
        """
        ...

    def refresh(self) -> None:
        """Connect anew where the server has hung up, for what can't be asked twice."""
        ...


class Lines(Protocol):
    """What lends lines."""

    def lend(self) -> AbstractContextManager[Line]:
        """Lend one for a command."""
        ...

    def hang_up(self) -> None:
        """Close what is idle: where one was cut, others may be."""
        ...

    def reap(self) -> None:
        """Close what has been idle for long enough."""
        ...


#: Runs what reaches the server: its failures are of another kind, as nothing was sent yet.
Reached = Callable[[Callable[[], Any]], Any]


def lines(client: Any, reached: Reached) -> Lines:
    """Return what lends lines to where a client of the driver's would connect."""
    pool = getattr(client, "connection_pool", None)
    return Cluster(client) if pool is None else Pooled(pool, reached)


class Connection:
    """A line that is a connection of its own."""

    def __init__(self, pool: Any, reached: Reached) -> None:
        self._pool, self._reached = pool, reached
        self._by_sentinels = hasattr(pool, "master_address")
        self._driver = pool.connection_class(**pool.connection_kwargs)
        reached(self._driver.connect)
        self._sound = True

    @property
    def usable(self) -> bool:
        """Tell whether it may be lent: nothing failed here, and the master is still this one."""
        if not self._by_sentinels:
            return self._sound
        return self._sound and (self._driver.host, self._driver.port) == self._pool.master_address

    def evaluate(self, word: str, script: str, root: str, given: str) -> str:
        """Send EVAL or EVALSHA with one key and one argument; return its answer."""
        verb, body, key, argument = word.encode(), script.encode(), root.encode(), given.encode()
        packed = _SCRIPT % (
            *(len(verb), verb, len(body), body),
            *(len(key), key, len(argument), argument),
        )
        return self._asked((packed,))  # type: ignore[no-any-return]

    def wait(self, mark: str, replicas: int, *, ms: int) -> int:
        """Return how many replicas have what the master had when it answered the last script."""
        # Of this connection's own writes alone, says Valkey's WAIT; the lock's may be another's.
        self._asked(self._driver.pack_command("SET", mark, "", "PX", 1))
        return self._asked(self._driver.pack_command("WAIT", replicas, ms))  # type: ignore[no-any-return]

    def refresh(self) -> None:
        """Connect anew where the server has hung up, for what can't be asked twice."""
        if self._driver.can_read():
            self._driver.disconnect()
            self._reached(self._driver.connect)

    def close(self) -> None:
        """Close it."""
        self._sound = False
        self._driver.disconnect()

    def _asked(self, packed: Sequence[bytes]) -> Any:
        try:
            self._driver.send_packed_command(packed, check_health=False)
            return self._driver.read_response()
        except ResponseError:
            raise
        except BaseException:
            # Whatever comes now would be read as the answer to something else.
            self.close()
            raise


class Pooled:
    """Lends connections to one server, or to the master that sentinels name."""

    def __init__(self, pool: Any, reached: Reached) -> None:
        self._connections: Connections[Connection] = Connections(
            lambda: Connection(pool, reached), attrgetter("usable")
        )

    def lend(self) -> AbstractContextManager[Line]:
        """Lend one for a command."""
        return self._connections.lend()

    def hang_up(self) -> None:
        """Close what is idle: where one was cut, others may be."""
        self._connections.close()

    def reap(self) -> None:
        """Close what has been idle for long enough."""
        self._connections.reap()


class Cluster:
    """A cluster: its driver knows the node that has an App's slot, and keeps the connections."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @contextmanager
    def lend(self) -> Iterator[Line]:
        """Lend itself."""
        yield self

    def evaluate(self, word: str, script: str, root: str, given: str) -> str:
        """Send EVAL or EVALSHA with one key and one argument; return its answer."""
        return self._client.execute_command(word, script, 1, root, given)  # type: ignore[no-any-return]

    def wait(self, mark: str, replicas: int, *, ms: int) -> int:
        """Never asked for: such a URL is refused."""
        raise AssertionError("wait= is not for a cluster")

    def refresh(self) -> None:
        """There is nothing to do: the driver looks, each time."""

    def hang_up(self) -> None:
        """There is nothing idle here."""

    def reap(self) -> None:
        """There is nothing idle here."""
