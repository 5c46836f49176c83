"""redis-py's Lock: what it keeps, and the holes that docs/how-to/from-your-lock.md names."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from redis.exceptions import LockError, LockNotOwnedError

from coexist.page import pasted
from onejob import App, NotAcquired

SECTION = "redis-py's `Lock`"


def test_only_its_owner_releases_or_extends_it(client: Any, name: str) -> None:
    first, second = client.lock(name, timeout=0.05), client.lock(name, timeout=10)
    assert first.acquire()
    assert second.acquire(blocking_timeout=2)

    with pytest.raises(LockNotOwnedError):
        first.extend(10)
    with pytest.raises(LockNotOwnedError):
        first.release()

    assert second.owned()


def test_after_its_timeout_the_holder_is_told_of_nothing_and_its_write_lands(
    client: Any, name: str
) -> None:
    """C01, C09: the second has written; the first overwrites it, and hears of it at the end."""
    first = client.lock(name, timeout=0.05)
    assert first.acquire()
    with client.lock(name, timeout=10, blocking_timeout=2) as second:
        client.set(f"{name}:value", "second")
        ids = (first.local.token, second.local.token)
    client.set(f"{name}:value", "first, late")

    with pytest.raises(LockNotOwnedError):
        first.release()
    assert client.get(f"{name}:value") == b"first, late"
    # What there is of a holder is an id, and no number that the value could compare.
    assert not any(id.isdigit() for id in ids)


def test_extending_again_and_again_piles_up(client: Any, name: str) -> None:
    """A holder that dies now leaves the lock taken for a minute, not for its ten seconds."""
    lock = client.lock(name, timeout=10)
    assert lock.acquire()

    for _ in range(5):
        lock.extend(10)

    assert 50_000 < client.pttl(name) <= 60_000
    lock.extend(10, replace_ttl=True)
    assert client.pttl(name) <= 10_000


def test_without_a_timeout_it_has_no_end(client: Any, name: str) -> None:
    """C04"""
    assert client.lock(name).acquire()

    assert client.pttl(name) == -1


def test_threads_that_share_one_object_release_each_others_lock(client: Any, name: str) -> None:
    """A10, C01: with thread_local=False its owner is whoever was last."""
    shared = client.lock(name, timeout=0.05, thread_local=False)
    assert shared.acquire()
    second = threading.Thread(target=shared.acquire, kwargs={"blocking_timeout": 2})
    second.start()
    second.join()
    assert client.get(name) is not None

    shared.release()

    assert client.get(name) is None


def test_a_key_that_is_gone_means_two_holders(client: Any, name: str) -> None:
    """C10: what a failover to a replica without the key looks like."""
    first, second = client.lock(name, timeout=10), client.lock(name, timeout=10)
    assert first.acquire()
    client.delete(name)

    assert second.acquire(blocking=False)


def test_in_the_release_that_takes_both_either_is_enough_to_be_refused(
    redis_app: App, client: Any, name: str
) -> None:
    page = pasted(SECTION, app=redis_app, nightly=name, client=client)

    with client.lock(name, timeout=10), pytest.raises(LockError), page.both():
        pass
    with redis_app.lock(name), pytest.raises(NotAcquired), page.both():
        pass
    assert client.get(name) is None
    with page.both() as lease:
        assert lease.token
        assert not client.lock(name).acquire(blocking=False)
