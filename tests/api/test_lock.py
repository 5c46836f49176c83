"""``app.lock``: one holder at a time, in both colours, and what its body is told."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import onejob
from onejob import App, AsyncLease, Lease, LeaseLost, LockInfo, NotAcquired, UsageError, waiting
from onejob.commands import leases
from onejob.core.time import Span
from onejob.runtime import renewer

HOUR = Span(3_600_000_000)


def delete_row(app: App, name: str) -> None:
    """Make a lock's row vanish, as a person or a restored backup might."""
    store: Any = app.store
    with store.transaction(longest=9_000_000) as connection:
        connection.execute(f"DELETE FROM {store.catalogue.prefix}lease")


async def until(app: App, wanted: Callable[[LockInfo], bool]) -> None:
    """Wait until one of the taken locks is as ``wanted``."""
    for _ in range(2_000):
        if any(wanted(lock) for lock in await app.locks.alist()):
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


def test_a_held_lock_is_refused_and_says_who_has_it_since_and_until_when(app: App) -> None:
    """C07: busy is not lost."""
    with app.lock("nightly") as lease, pytest.raises(NotAcquired) as refused:
        app.lock("nightly").__enter__()

    assert isinstance(lease, Lease)
    assert refused.value.holder == app._services().owner
    assert refused.value.since is not None
    assert refused.value.until is not None
    assert refused.value.until > refused.value.since
    assert refused.value.holder in str(refused.value)
    assert not isinstance(refused.value, LeaseLost)


def test_a_second_use_by_the_same_thread_is_refused_like_any_other(sqlite_app: App) -> None:
    """C16, A10"""
    lock = sqlite_app.lock("nightly")

    with lock, pytest.raises(NotAcquired):
        lock.__enter__()
    with lock as again:
        again.check()


def test_each_use_has_a_higher_token(sqlite_app: App) -> None:
    tokens = []
    for _ in range(3):
        with sqlite_app.lock("nightly") as lease:
            tokens.append(lease.token)

    assert tokens == sorted(set(tokens))


def test_a_lease_that_has_been_released_is_no_lease(sqlite_app: App) -> None:
    with sqlite_app.lock("nightly") as lease:
        assert 29 > lease.remaining() > 20
        assert not lease.lost

    assert lease.lost
    assert lease.remaining() == 0
    with pytest.raises(LeaseLost, match="released"):
        lease.check()


def test_a_lock_that_is_released_late_is_kept_for_its_minimum(sqlite_app: App) -> None:
    """A14"""
    with sqlite_app.lock("nightly", at_least="1h"):
        pass

    with pytest.raises(NotAcquired, match="kept for its minimum"):
        sqlite_app.lock("nightly").__enter__()


def test_whoever_waits_gets_the_lock_when_it_is_released(app: App) -> None:
    got: list[int] = []
    lock = app.lock("nightly")
    first = lock.__enter__()

    def wait() -> None:
        with app.lock("nightly", wait="20s") as lease:
            got.append(lease.token)

    waiter = threading.Thread(target=wait)
    waiter.start()
    while not [one.waiting for one in app.locks.list() if one.waiting]:
        time.sleep(0.01)
    lock.__exit__(None, None, None)
    waiter.join(20)

    assert got == [first.token + 1]
    [after] = [app.locks.get("nightly")]
    assert after is not None
    assert (after.state, after.waiting) == ("free", 0)


def test_whoever_waits_in_vain_is_told_and_counted_no_longer(sqlite_app: App) -> None:
    """C03: the wait ends, the holder's lease doesn't."""
    with sqlite_app.lock("nightly", ttl="1s") as lease:
        with pytest.raises(NotAcquired):
            sqlite_app.lock("nightly", wait="1s").__enter__()

        lease.check()
        [lock] = sqlite_app.locks.list()
        assert lock.waiting == 0


def test_fifty_waiters_share_two_connections_and_all_get_their_turn(postgres_app: App) -> None:
    """C24: a waiter holds nothing."""
    opened: list[int] = []
    store: Any = postgres_app.store
    connect = store._connections._connect

    def counted() -> Any:
        opened.append(1)
        return connect()

    store._connections._connect = counted
    inside: list[str] = []

    def work(n: int) -> None:
        with postgres_app.lock("nightly", wait="50s"):
            inside.append("in")
            inside.append("out")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)

    assert inside == ["in", "out"] * 50
    # Two that ask, those that release meanwhile, and none for each that waits.
    assert len(opened) <= 5


def test_a_lock_is_renewed_for_as_long_as_its_body_runs(app: App) -> None:
    """B14: from a thread of its own, which a busy body doesn't stop."""
    with app.lock("nightly", ttl="1s") as lease:
        end = time.monotonic() + 1.6
        while time.monotonic() < end:
            pass
        lease.check()
        with pytest.raises(NotAcquired):
            app.lock("nightly").__enter__()


def test_a_body_whose_row_was_deleted_is_told_within_a_renewal(app: App) -> None:
    """C06, C19: not only at the end."""
    told: list[Any] = []

    def body() -> None:
        with app.lock("nightly", ttl="3s", on_lost=told.append) as lease:
            delete_row(app, "nightly")
            while not lease.lost:
                time.sleep(0.005)
            # Refused by the store, and long before its own time would have been over.
            with pytest.raises(LeaseLost, match="no longer as ours"):
                lease.check()

    with pytest.raises(LeaseLost, match="nightly"):
        body()
    for _ in range(1_000):
        if told:
            break
        time.sleep(0.005)
    assert [lease.name for lease in told] == ["nightly"]


def test_a_loss_never_hides_what_the_body_raised(sqlite_app: App) -> None:
    def body() -> None:
        with sqlite_app.lock("nightly"):
            delete_row(sqlite_app, "nightly")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()


def test_an_async_body_is_cancelled_when_its_lock_is_lost(app: App) -> None:
    seen: list[str] = []

    async def body() -> None:
        async with app.lock("nightly", ttl="1s") as lease:
            assert isinstance(lease, AsyncLease)
            await app.locks.abreak_("nightly", reason="a test")
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

    async def main() -> None:
        with pytest.raises(LeaseLost):
            await body()
        task = asyncio.current_task()
        assert task is not None
        seen.append(f"{task.cancelling()} more")

    asyncio.run(main())

    assert seen == ["cancelled", "0 more"]


def test_a_cancellation_of_somebody_elses_stays_one(sqlite_app: App) -> None:
    async def main() -> None:
        async def body() -> None:
            async with sqlite_app.lock("nightly"):
                await asyncio.sleep(30)

        task = asyncio.create_task(body())
        await until(sqlite_app, lambda lock: True)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with sqlite_app.lock("nightly", wait="5s"):
            pass

    asyncio.run(main())


def test_a_waiter_that_is_cancelled_leaves_nothing_behind(app: App) -> None:
    async def main() -> None:
        async with app.lock("nightly"):
            waiting = asyncio.create_task(app.lock("nightly", wait="30s").__aenter__())
            await until(app, lambda lock: lock.waiting == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until(app, lambda lock: lock.waiting == 0)

        async with app.lock("nightly"):
            pass

    asyncio.run(main())


def test_tasks_of_one_loop_take_turns(sqlite_app: App) -> None:
    inside: list[str] = []

    async def work() -> None:
        async with sqlite_app.lock("nightly", wait="20s"):
            inside.append("in")
            await asyncio.sleep(0.001)
            inside.append("out")

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(8)))

    asyncio.run(main())

    assert inside == ["in", "out"] * 8


def test_a_decorated_function_holds_the_lock_during_each_call(app: App) -> None:
    @app.lock("nightly")
    def plain(n: int) -> tuple[int, int]:
        return n, onejob.assert_locked("nightly").token

    @app.lock("nightly")
    async def coroutine(n: int) -> tuple[int, int]:
        return n, onejob.assert_locked("nightly").token

    first, second = plain(7), asyncio.run(coroutine(8))

    assert (first[0], second[0]) == (7, 8)
    assert second[1] > first[1]
    assert plain.__name__ == "plain"
    assert app.locks.list() == []


def test_code_that_needs_a_lock_fails_without_it(sqlite_app: App) -> None:
    def guarded() -> int:
        return onejob.assert_locked("nightly").token

    with pytest.raises(UsageError, match=r"app\.lock\('nightly'\)"):
        guarded()
    with sqlite_app.lock("monthly"), pytest.raises(UsageError):
        guarded()
    with sqlite_app.lock("nightly") as lease:
        assert guarded() == lease.token
        other: list[Any] = []

        def elsewhere() -> None:
            with pytest.raises(UsageError) as refused:
                guarded()
            other.append(refused)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert len(other) == 1
        assert asyncio.run(asyncio.to_thread(guarded)) == lease.token
    with pytest.raises(UsageError):
        guarded()


def test_a_lock_that_is_dropped_is_renewed_no_longer_and_warns(sqlite_app: App) -> None:
    def take_and_forget() -> int:
        return sqlite_app.lock("nightly", ttl="1s").__enter__().token

    def forgotten() -> int:
        token = take_and_forget()
        gc.collect()
        return token

    with pytest.warns(ResourceWarning, match="dropped without being released"):
        token = forgotten()
    with sqlite_app.lock("nightly", wait="10s") as lease:
        assert lease.token > token


def test_the_threads_end_when_nothing_is_held_any_more(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewer, "LINGER", 50_000)
    others = set(threading.enumerate())
    with sqlite_app.lock("nightly"):
        ours = [thread for thread in threading.enumerate() if thread not in others]
        assert {thread.name for thread in ours} == {"onejob-renewer", "onejob-watch"}

    for thread in ours:
        thread.join(10)
    assert not any(thread.is_alive() for thread in ours)


def test_locks_of_two_apps_and_two_schemas_have_nothing_to_do_with_each_other(
    postgres_app: App, postgres_url: str
) -> None:
    """C21, C26"""
    other = App(postgres_url, schema=postgres_app.schema, name="bank")
    try:
        with postgres_app.lock("nightly"), other.lock("nightly"):
            assert [one.app for one in other.locks.list()] == ["bank"]
    finally:
        other.close()


def test_events_tell_of_each_lock_taken_refused_released_and_lost(sqlite_app: App) -> None:
    told: list[tuple[str, object]] = []
    sqlite_app.events.listen(lambda event: told.append((event.name, event.fields.get("lock"))))

    with sqlite_app.lock("nightly"), pytest.raises(NotAcquired):
        sqlite_app.lock("nightly").__enter__()

    names = [name for name, lock in told if lock == "nightly"]
    assert names == ["lock.acquired", "lock.refused", "lock.released"]


def test_a_release_that_cannot_be_sent_now_is_sent_later(sqlite_app: App) -> None:
    """C18: a store that is away for a moment leaves no lock behind, and fails no finished body."""
    services: Any = sqlite_app._services()
    run = services.store.run
    refusals: list[str] = []

    def away_once(command: Any, within: Any = None) -> Any:
        if command.name == "lease_release" and not refusals:
            refusals.append(command.name)
            raise onejob.StoreUnavailable("here", "a test")
        return run(command, within)

    services.store.run = away_once
    with sqlite_app.lock("nightly", ttl="30s"):
        pass
    with sqlite_app.lock("nightly", wait="10s"):
        pass

    assert refusals == ["lease_release"]


def test_ten_thousand_dead_names_are_forgotten_in_batches(sqlite_app: App) -> None:
    """C05"""
    run = sqlite_app.store.run
    store: Any = sqlite_app.store
    with store.transaction(longest=5_000_000) as connection:
        connection.executemany(
            "INSERT INTO onejob_lease (scope, name, token, changed, expires) VALUES (?,?,?,?,?)",
            [("shop", f"dead-{n}", n, 1, 1) for n in range(10_000)],
        )

    with sqlite_app.lock("alive"):
        purged = 0
        while batch := run(leases.purge(unused=HOUR, limit=1_000)):
            purged += batch
        left = [one.standing.name for one in run(leases.listed(free=True, limit=10))]

    assert (purged, left) == (10_000, ["alive"])


def test_new_names_clear_away_old_ones_without_any_replica(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C05"""
    monkeypatch.setattr(waiting, "TIDY_EVERY", 1)
    store: Any = sqlite_app.store
    with store.transaction(longest=9_000_000) as connection:
        connection.execute("INSERT INTO onejob_lease (scope, name) VALUES ('shop', 'dead')")

    with sqlite_app.lock("fresh"):
        while sqlite_app.locks.get("dead"):
            time.sleep(0.005)
        assert sqlite_app.locks.get("fresh")
