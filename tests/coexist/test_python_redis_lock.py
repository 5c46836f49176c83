"""python-redis-lock: what it keeps, and the holes that docs/how-to/from-your-lock.md names."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis
import redis_lock

from coexist.page import pasted
from onejob import App, NotAcquired
from servers.redis import PrivateRedis

SECTIONS = ("redis-py's `Lock`", "python-redis-lock")


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ended threads, by name of the error."""
    failed: list[str] = []

    def note(args: threading.ExceptHookArgs) -> None:
        failed.append(args.exc_type.__name__)

    monkeypatch.setattr(threading, "excepthook", note)
    return failed


def test_only_its_owner_releases_or_extends_it(client: Any, name: str) -> None:
    first, second = (redis_lock.Lock(client, name, expire=10) for _ in range(2))
    assert first.acquire()
    client.pexpire(f"lock:{name}", 1)
    while not second.acquire(blocking=False):
        pass

    with pytest.raises(redis_lock.NotAcquired):
        first.extend()
    with pytest.raises(redis_lock.NotAcquired):
        first.release()

    assert second.get_owner_id() == second.id


def test_without_an_expiry_it_has_no_end(client: Any, name: str) -> None:
    """C04"""
    assert redis_lock.Lock(client, name).acquire()

    assert client.pttl(f"lock:{name}") == -1


def test_one_that_renews_itself_says_nothing_when_it_is_lost(
    client: Any, name: str, failed: list[str]
) -> None:
    """C06, C19: its thread ends; the work goes on, and hears of it when it releases."""
    lock = redis_lock.Lock(client, name, expire=1, auto_renewal=True)
    assert lock.acquire()
    client.delete(f"lock:{name}")
    thread = lock._lock_renewal_thread
    thread.join(3)

    assert not thread.is_alive()
    assert failed == ["NotAcquired"]
    assert redis_lock.Lock(client, name, expire=10).acquire(blocking=False)
    with pytest.raises(redis_lock.NotAcquired):
        lock.release()


def test_one_id_for_a_host_is_one_holder_for_all_of_it(client: Any, name: str) -> None:
    """C01: the other process gives back what it never had."""
    first, second = (redis_lock.Lock(client, name, expire=10, id="host") for _ in range(2))
    assert first.acquire()

    second.release()

    assert client.get(f"lock:{name}") is None


def test_resetting_all_frees_everybodys_lock(private: PrivateRedis) -> None:
    """C07: as some do when a worker starts."""
    with redis.Redis.from_url(private.url) as client:
        held = [redis_lock.Lock(client, name, expire=10) for name in ("nightly", "digest")]
        assert all(lock.acquire() for lock in held)

        redis_lock.reset_all(client)

        assert [lock.locked() for lock in held] == [False, False]


def test_a_server_that_is_away_ends_the_renewal_for_good(failed: list[str]) -> None:
    """C18: "could not ask" is taken for an end, and nobody is told."""
    server = PrivateRedis()
    try:
        with redis.Redis.from_url(server.url) as client:
            lock = redis_lock.Lock(client, "nightly", expire=1, auto_renewal=True)
            assert lock.acquire()
            thread = lock._lock_renewal_thread
            server.stop()
            thread.join(20)
    finally:
        server.stop()

    assert not thread.is_alive()
    assert failed == ["ConnectionError"]


def test_in_the_release_that_takes_both_either_is_enough_to_be_refused(
    redis_app: App, client: Any, name: str
) -> None:
    page = pasted(*SECTIONS, app=redis_app, nightly=name, client=client)

    held = redis_lock.Lock(client, name, expire=10)
    with held, pytest.raises(redis_lock.NotAcquired), page.both_renewed():
        pass
    with redis_app.lock(name), pytest.raises(NotAcquired), page.both_renewed():
        pass
    assert not held.locked()
    with page.both_renewed() as lease:
        assert lease.token
        assert not held.acquire(blocking=False)
