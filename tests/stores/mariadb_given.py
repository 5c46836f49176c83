"""What the tests of MariaDB alone share: locks that are taken, and users' own connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from onejob.commands import fences, leases
from onejob.core.hold import Grip, Standing
from onejob.core.run import Token
from onejob.core.time import SECOND, Span
from onejob.stores.mariadb import MariadbStore
from servers.mariadb import connect

TTL = Span(10 * SECOND)

Connect = Callable[..., Any]


def users(mariadb_url: str) -> Iterator[Connect]:
    """Give a way to open connections as users have them; closed at the end."""
    opened: list[Any] = []

    def open(**options: object) -> Any:
        opened.append(connect(mariadb_url, **options))
        return opened[-1]

    yield open
    for connection in opened:
        if connection.open:
            connection.close()


def ask(owner: str, name: str = "reindex", **more: Any) -> Any:
    return leases.acquire("shop", name, owner=owner, holder=owner, **{"ttl": TTL, **more})


def taken(store: MariadbStore, owner: str, name: str = "reindex", **more: Any) -> Standing:
    answer = store.run(ask(owner, name, **more)) or store.run(ask(owner, name, **more))
    assert isinstance(answer, Standing)
    assert answer.owner == owner
    return answer


def grip(standing: Standing) -> Grip:
    return Grip(standing.scope, standing.name, standing.token, standing.owner)


def check(token: int, resource: str = "x") -> Any:
    return fences.check("shop", resource, Token(token), idle_limit=TTL)


def killed(user: Connect, *connections: Any) -> None:
    """End these connections at the server, as an administrator would, and wait until they are."""
    ids = [connection.thread_id() for connection in connections]
    with user(autocommit=True).cursor() as cursor:
        for id in ids:
            cursor.execute("KILL %s", (id,))
        while cursor.execute(
            "SELECT id FROM information_schema.processlist WHERE id IN %s", (ids,)
        ):
            time.sleep(0.01)


def seen(connection: Any, store: MariadbStore) -> None:
    """Read something, so that what this transaction sees is settled."""
    rows(connection, f"SELECT * FROM {store.catalogue.prefix}lease")
    rows(connection, f"SELECT * FROM {store.catalogue.prefix}fence")


def rows(connection: Any, text: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())
