"""Locks on a Redis that forgets: its scripts, its connections, or everything."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import redis

from onejob import App, LeaseLost, StaleToken
from onejob.commands import fences
from onejob.core.run import Token
from onejob.core.time import SECOND, Span
from servers.redis import PrivateRedis

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[PrivateRedis]:
    """A server of the test's own: others hold connections and scripts on a shared one."""
    server = PrivateRedis()
    yield server
    server.stop()


@pytest.fixture
def apps(server: PrivateRedis) -> Iterator[list[App]]:
    """Three processes' worth: a holder, one who waits, and one who comes later."""
    apps = [App(server.url, name="shop") for _ in range(3)]
    yield apps
    for app in apps:
        app.close()


def forget(server: PrivateRedis) -> None:
    """Do what a failover does to whoever is connected."""
    with redis.Redis.from_url(server.url) as client:
        client.script_flush()
        for kind in ("normal", "pubsub"):
            client.client_kill_filter(_type=kind, skipme=True)


def test_a_holder_and_one_who_waits_outlive_their_scripts_and_connections(
    server: PrivateRedis, apps: list[App]
) -> None:
    """C11, C18: renewals go on over new ones, whoever waits gets the lock, and so do others."""
    holder, waiter, later = apps
    got = threading.Event()

    def wait() -> None:
        with waiter.lock("nightly", wait="20s"):
            got.set()

    with holder.lock("nightly", ttl="1s") as lease:
        thread = threading.Thread(target=wait)
        thread.start()
        for _ in range(3):
            forget(server)
            time.sleep(0.4)
        lease.check()
        assert not got.is_set()
        forget(server)
    thread.join(20)

    assert got.is_set()
    with later.lock("nightly") as after:
        assert after.token > lease.token


def test_where_everything_was_wiped_the_newer_holder_has_the_higher_token(
    server: PrivateRedis, apps: list[App]
) -> None:
    """C10: acquire, FLUSHALL, acquire: both believe it, and only one is let through anywhere."""
    first, second, _ = apps
    lock = first.lock("nightly", ttl="60s", protects="ledger")
    older = lock.__enter__()
    with redis.Redis.from_url(server.url) as client:
        client.flushall()

    with second.lock("nightly", ttl="60s", protects="ledger") as newer:
        assert newer.token > older.token
        for lease, passes in ((older, False), (newer, True)):
            asked = fences.check("shop", "ledger", Token(lease.token), idle_limit=Span(SECOND))
            assert second.store.run(asked) == passes
        with pytest.raises(LeaseLost):
            lock.__exit__(None, None, None)
        newer.check()


def test_what_compares_tokens_elsewhere_refuses_whoever_held_before_the_wipe(
    server: PrivateRedis, apps: list[App], sqlite_url: str
) -> None:
    """C10, C09: the resource is in another store, which has forgotten nothing."""
    import sqlite3

    elsewhere = App(sqlite_url, name="shop", single_machine=True)
    elsewhere.store.init()  # type: ignore[attr-defined]  # SQLite has it
    first, second, _ = apps
    with first.lock("nightly", ttl="60s") as lease:
        older = lease.token
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    with second.lock("nightly", ttl="60s") as lease:
        newer = lease.token

    connection = sqlite3.connect(elsewhere.store.where)
    with connection:
        elsewhere.fence("ledger", newer, within=connection)
    with pytest.raises(StaleToken), connection:
        elsewhere.fence("ledger", older, within=connection)
    connection.close()
    elsewhere.close()
