"""What can happen to connections: ended by the server, forgotten, silent; and what we do to it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from faults.processes import Fleet, until
from faults.proxy import Proxy

pytestmark = pytest.mark.slow


@pytest.fixture
def server(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of the test's own, to look at the others."""
    with psycopg.connect(postgres_url, autocommit=True, application_name="onlooker") as connection:
        yield connection


def sessions(server: psycopg.Connection[Any]) -> list[int]:
    rows = server.execute(
        "SELECT pid FROM pg_stat_activity "
        "WHERE application_name = 'shop' AND datname = current_database() ORDER BY pid"
    ).fetchall()
    return [pid for (pid,) in rows]


def terminate(server: psycopg.Connection[Any]) -> list[int]:
    """End every session of the replicas: workers, keepers, and those that listen."""
    pids = sessions(server)
    for pid in pids:
        server.execute("SELECT pg_terminate_backend(%s)", (pid,))
    return pids


def soon(condition: Callable[[], Any], what: str) -> float:
    begun = time.monotonic()
    until(condition, what, seconds=10)
    return time.monotonic() - begun


def test_a_replica_whose_sessions_are_all_terminated_works_on(
    postgres_fleet: Fleet, server: psycopg.Connection[Any]
) -> None:
    """F03: four times in the middle of its work; nothing lost, nothing doubled, no lease lost."""
    fleet = postgres_fleet
    [replica] = fleet.start(lease="12s", concurrency="5")
    ids = fleet.enqueue("short", *(f"r{place:02}" for place in range(50)))
    for round in range(4):
        fleet.wait_for_mark("done", count=5 + 10 * round)
        assert terminate(server)

    ended = fleet.wait(*ids)

    assert replica.alive
    assert {run.outcome for run in ended} == {"succeeded"}
    assert len(fleet.marks("done")) == 50
    assert {run.attempt for run in ended} == {1}
    assert replica.events("replica.lost") == []
    assert replica.events("loop.error") == []


def test_listening_is_taken_up_again_after_its_session_is_terminated(
    postgres_fleet: Fleet, server: psycopg.Connection[Any]
) -> None:
    """F03, F05: with a poll of 30 s only a notification brings the next run in time."""
    fleet = postgres_fleet
    [replica] = fleet.start(lease="60s", poll="30s")
    until(lambda: [one.idle for one in fleet.live()] == [1], "it waits for work")
    [first] = fleet.enqueue("quick", "first")
    fleet.wait(first, seconds=10)
    assert terminate(server)
    until(lambda: sessions(server), "it has connected again")

    took = []
    for key in ("second", "third"):
        time.sleep(0.3)
        fleet.enqueue("quick", key)
        took.append(soon(lambda key=key: fleet.marks("done", key=key), f"{key} is done"))

    print(f"started {took[0]:.2f} s and {took[1]:.2f} s after being enqueued, poll=30s")
    assert max(took) < 2
    assert replica.events("loop.error") == []


def test_a_lost_session_is_not_reconnected_in_a_loop(
    postgres_fleet: Fleet, server: psycopg.Connection[Any]
) -> None:
    """F05: one new session for the keeper and one for the worker, and then quiet."""
    fleet = postgres_fleet
    fleet.start()
    for _ in range(3):
        terminate(server)
        until(lambda: sessions(server), "it has connected again")
        time.sleep(0.5)

    seen: set[int] = set()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        seen.update(sessions(server))
        time.sleep(0.02)

    assert 1 <= len(seen) <= 3


def test_no_session_of_ours_sits_in_a_transaction_while_a_job_runs(
    postgres_fleet: Fleet, server: psycopg.Connection[Any], postgres_url: str
) -> None:
    """C23, F02: with the server ending any that does for a second, the job is undisturbed."""
    fleet = postgres_fleet
    name = urlsplit(postgres_url).path[1:]
    server.execute(f'ALTER DATABASE "{name}" SET idle_in_transaction_session_timeout = 1000')
    try:
        [replica] = fleet.start()
        [run] = fleet.enqueue("works_slowly", "one")
        fleet.wait_for_mark("begun")
        oldest = 0.0
        while not fleet.marks("done"):
            rows = server.execute(
                "SELECT extract(epoch FROM clock_timestamp() - xact_start) FROM pg_stat_activity "
                "WHERE application_name = 'shop' AND datname = current_database() "
                "AND state LIKE 'idle in%'"
            ).fetchall()
            oldest = max([oldest, *(float(age) for (age,) in rows)])
        [ended] = fleet.wait(run)
    finally:
        server.execute(f'ALTER DATABASE "{name}" RESET idle_in_transaction_session_timeout')

    print(f"the oldest idle transaction of ours: {oldest * 1000:.0f} ms")
    assert oldest < 0.2
    assert (ended.outcome, ended.attempt) == ("succeeded", 1)
    assert replica.events("store.trouble") == []


@pytest.mark.soak
def test_an_idle_replica_needs_one_connection_and_less_than_one_query_a_second(
    postgres_fleet: Fleet, server: psycopg.Connection[Any]
) -> None:
    """The worker's own are closed once they have been idle for ten seconds."""
    fleet = postgres_fleet
    fleet.start(lease="12s", poll="2s")
    until(lambda: len(sessions(server)) == 1, "one connection is left", seconds=20)
    [pid] = sessions(server)

    def last() -> Any:
        text = "SELECT query_start FROM pg_stat_activity WHERE pid = %s"
        return server.execute(text, (pid,)).fetchone()

    starts = set()
    end = time.monotonic() + 8
    while time.monotonic() < end:
        starts.add(last())
        time.sleep(0.01)

    print(f"an idle replica: {len(starts) / 8:.2f} statements a second over one connection")
    assert sessions(server) == [pid]
    assert len(starts) <= 10


def test_a_busy_replica_needs_at_most_three_connections(
    postgres_fleet: Fleet, server: psycopg.Connection[Any]
) -> None:
    fleet = postgres_fleet
    fleet.start(lease="12s")
    ids = fleet.enqueue("short", *(f"r{place}" for place in range(60)))
    most = 0
    while len(fleet.marks("done")) < 60:
        most = max(most, len(sessions(server)))

    fleet.wait(*ids)
    assert 1 < most <= 3


@contextmanager
def through_a_proxy(fleet: Fleet) -> Iterator[tuple[Proxy, str]]:
    """Yield a way to the fleet's store that can fall silent, and its URL."""
    parts = urlsplit(fleet.environment["SHOP_URL"])
    with Proxy(parts.port or 5432) as proxy:
        yield proxy, parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl()


def test_a_store_that_falls_silent_costs_the_lease_in_time_and_cancels_the_handlers(
    postgres_fleet: Fleet,
) -> None:
    """P6, F05: bytes are taken and never answered, as by a frozen server or a paused pooler."""
    fleet = postgres_fleet
    with through_a_proxy(fleet) as (proxy, through):
        [cut_off] = fleet.start(url=through)
        [run] = fleet.enqueue("a_minute_unless_cancelled", "one")
        fleet.wait_for_mark("begun")
        [other] = fleet.start()

        proxy.fall_silent()
        silent = time.monotonic()
        until(lambda: fleet.marks("cancelled"), "its handler is cancelled", seconds=15)
        took = time.monotonic() - silent
        second = fleet.wait_for_mark("begun", count=2)

    print(f"its handler was cancelled {took:.2f} s after the silence began, with lease=2s")
    assert took < 4
    assert [mark.what for mark in fleet.marks()] == ["begun", "cancelled", "begun"]
    assert (second.pid, second.attempt) == (other.pid, 2)
    assert fleet.run(run).deaths == 1
    assert cut_off.alive


def test_a_replica_whose_store_was_silent_for_a_while_works_on(postgres_fleet: Fleet) -> None:
    """F05: what was on its way is answered late or lost; nothing is doubled, and nothing hangs."""
    fleet = postgres_fleet
    with through_a_proxy(fleet) as (proxy, through):
        [replica] = fleet.start(url=through, concurrency="4")
        ids = fleet.enqueue("short", *(f"r{place:02}" for place in range(24)))
        fleet.wait_for_mark("done", count=4)
        proxy.fall_silent()
        until(lambda: replica.events("replica.lost"), "it has lost its lease", seconds=15)
        proxy.speak_again()
        ended = fleet.wait(*ids)

    assert {run.outcome for run in ended} == {"succeeded"}
    for run in ended:
        attempts = [mark.attempt for mark in fleet.marks("begun", key=run.key)]
        assert len(attempts) == len(set(attempts))
    assert replica.events("loop.error") == []


def test_a_replica_cut_off_from_its_store_ends_when_it_is_asked_to(postgres_fleet: Fleet) -> None:
    """F12: within the grace period and a little; nobody has to kill it."""
    fleet = postgres_fleet
    with through_a_proxy(fleet) as (proxy, through):
        [replica] = fleet.start(url=through, grace="1s")
        fleet.enqueue("a_minute", "one")
        fleet.wait_for_mark("begun")
        proxy.fall_silent()
        replica.signal(signal.SIGTERM)
        begun = time.monotonic()
        code = replica.ended(seconds=50)

    print(f"ended {time.monotonic() - begun:.1f} s after SIGTERM with a grace of 1 s")
    assert code == 5


def test_a_replica_whose_store_is_silent_in_a_thread_ends_when_it_is_asked_to(
    postgres_fleet: Fleet,
) -> None:
    """F12: its lease is lost and its handler gone, but a command waits, as the process would."""
    fleet = postgres_fleet
    with through_a_proxy(fleet) as (proxy, through):
        [replica] = fleet.start(url=through, grace="1s")
        fleet.enqueue("tells_how_far", "one")
        fleet.wait_for_mark("begun")
        proxy.fall_silent()
        until(lambda: replica.events("replica.lost"), "the replica knows that its lease is over")
        replica.signal(signal.SIGTERM)
        code = replica.ended(seconds=40)

    assert code == 5
