"""What only a server can get wrong: sessions that wait, clocks, time limits, notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from onejob.commands import ledger, replicas, runs, schedules, views
from onejob.commands.ledger import NewEntry
from onejob.commands.runs import NewRun
from onejob.core.run import Again, Kind, Outcome, Token
from onejob.core.time import HOUR, SECOND
from onejob.stores.postgres import PostgresStore
from onejob.testing.conformance.given import (
    DONE,
    NOW,
    Run,
    claim,
    defined,
    joined,
    made,
    running,
    settle,
    step,
)
from stores.sessions import PostgresSessions

CHARGE = NewEntry("mail/k", "charge", "owner")
PATIENT_MS = 20_000


@pytest.fixture
def run(postgres_store: PostgresStore) -> Run:
    return postgres_store.run


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.fixture
def until_waiting(postgres_url: str) -> Iterator[Callable[[int], None]]:
    """Return when a session waits for a lock."""
    with psycopg.connect(postgres_url, autocommit=True) as watch:

        def until(pid: int) -> None:
            question = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
            for _ in range(100_000):
                if watch.execute(question, (pid,)).fetchone() == ("Lock",):
                    return
            raise AssertionError("the session never waited")

        yield until


@pytest.mark.parametrize("end", ["commits", "rolls back"])
def test_a_session_that_waited_to_reclaim_never_brings_an_older_token(
    run: Run,
    postgres_sessions: PostgresSessions,
    aside: ThreadPoolExecutor,
    until_waiting: Callable[[int], None],
    end: str,
) -> None:
    """C09: refused after the other's commit; after its rollback, above every token in force."""
    held = run(ledger.claim(CHARGE, now=NOW))
    assert held
    first = postgres_sessions.open()
    second = postgres_sessions.open(patience_ms=PATIENT_MS)
    theirs = first.run(ledger.reclaim(CHARGE, held=held, now=NOW))

    waiting: Future[Token | None] = aside.submit(
        lambda: second.run(ledger.reclaim(CHARGE, held=held, now=NOW))
    )
    until_waiting(second.pid)
    first.commit() if end == "commits" else first.rollback()
    mine = waiting.result(timeout=20)
    second.commit()

    [entry] = run(ledger.read("mail/k", ["charge"], now=NOW))
    if end == "commits":
        assert (mine, entry.token) == (None, theirs)
    else:
        assert mine
        assert entry.token == mine > held


def test_a_session_that_waited_for_a_fence_finds_the_claim_superseded(
    run: Run,
    postgres_sessions: PostgresSessions,
    aside: ThreadPoolExecutor,
    until_waiting: Callable[[int], None],
) -> None:
    """C09, P2: what was true when it began to wait is not asked again by habit, but by the row."""
    claimed = running(run)
    sweeper = postgres_sessions.open()
    holder = postgres_sessions.open(patience_ms=PATIENT_MS)
    assert settle(sweeper.run, claimed.claim, Again(0, Outcome.ABANDONED))

    waiting = aside.submit(
        lambda: holder.run(runs.fence(claimed.claim, idle_limit=SECOND, now=NOW))
    )
    until_waiting(holder.pid)
    sweeper.commit()

    assert not waiting.result(timeout=20)


def test_a_session_that_waited_for_a_key_is_first_after_a_rollback(
    run: Run,
    postgres_sessions: PostgresSessions,
    aside: ThreadPoolExecutor,
    until_waiting: Callable[[int], None],
) -> None:
    """E06"""
    ask = ledger.first("inbox", "m-1", owner="o", keep=HOUR, now=NOW)
    first = postgres_sessions.open()
    second = postgres_sessions.open(patience_ms=PATIENT_MS)
    assert first.run(ask)

    waiting = aside.submit(lambda: second.run(ask))
    until_waiting(second.pid)
    first.rollback()

    assert waiting.result(timeout=20)


def test_the_clock_is_the_statements_and_not_the_transactions(
    postgres_sessions: PostgresSessions,
) -> None:
    """D09: in a user's long transaction now() stands still; leases and due times must not."""
    session = postgres_sessions.open()

    first = session.run(views.clock())
    second = session.run(views.clock())

    assert second > first


def test_a_holder_that_falls_silent_in_its_transaction_is_put_out(
    run: Run,
    postgres_sessions: PostgresSessions,
    aside: ThreadPoolExecutor,
    until_waiting: Callable[[int], None],
) -> None:
    """A13: frozen inside its fence, it would keep the run from the others for hours."""
    claimed = running(run)
    frozen = postgres_sessions.open()
    other = postgres_sessions.open(patience_ms=PATIENT_MS)
    assert frozen.run(runs.fence(claimed.claim, idle_limit=200_000, now=NOW))

    freed = other.run(runs.fence(claimed.claim, idle_limit=SECOND, now=NOW))

    assert freed
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        frozen.run(ledger.first_in_run(claimed.claim, "mail/k", "sent", keep=HOUR, now=NOW))


def test_the_limit_on_silence_ends_with_the_transaction(
    run: Run, postgres_sessions: PostgresSessions
) -> None:
    """A user's connection goes back to its pool as it came."""
    claimed = running(run)
    session = postgres_sessions.open()
    before = session.setting("idle_in_transaction_session_timeout")
    assert session.run(runs.fence(claimed.claim, idle_limit=12 * SECOND, now=NOW))
    during = session.setting("idle_in_transaction_session_timeout")
    session.commit()

    assert (before, during) == ("0", "12s")
    assert session.setting("idle_in_transaction_session_timeout") == "0"


def test_a_stricter_limit_of_the_users_own_is_left_alone(
    run: Run, postgres_sessions: PostgresSessions
) -> None:
    claimed = running(run)
    session = postgres_sessions.open()
    session.execute("SET LOCAL idle_in_transaction_session_timeout = '3s'", {})
    assert session.run(runs.fence(claimed.claim, idle_limit=12 * SECOND, now=NOW))

    assert session.setting("idle_in_transaction_session_timeout") == "3s"


def test_a_looser_limit_of_the_users_own_is_tightened(
    run: Run, postgres_sessions: PostgresSessions
) -> None:
    claimed = running(run)
    session = postgres_sessions.open()
    session.execute("SET LOCAL idle_in_transaction_session_timeout = '10min'", {})
    assert session.run(runs.fence(claimed.claim, idle_limit=12 * SECOND, now=NOW))

    assert session.setting("idle_in_transaction_session_timeout") == "12s"


def test_two_fences_of_runs_that_complete_in_opposite_orders_do_not_deadlock(
    run: Run, postgres_sessions: PostgresSessions
) -> None:
    """F15: each fence is exclusive, so nobody upgrades a lock that another shares."""
    made(run, "a")
    made(run, "b")
    one, other = claim(run, joined(run))
    first, second = postgres_sessions.open(), postgres_sessions.open()
    assert first.run(runs.fence(one.claim, idle_limit=SECOND, now=NOW))
    assert second.run(runs.fence(other.claim, idle_limit=SECOND, now=NOW))

    skipped = (settle(first.run, other.claim, DONE), settle(second.run, one.claim, DONE))
    ended = (settle(first.run, one.claim, DONE), settle(second.run, other.claim, DONE))

    assert skipped == (False, False)
    assert ended == (True, True)


def test_an_aborted_transaction_leaves_nothing(
    run: Run, postgres_sessions: PostgresSessions
) -> None:
    """E08, E26: an error of the user's own takes the run and its key with it."""
    session = postgres_sessions.open()
    id = made(session.run, "order-1", keyed=True)
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.execute("SELECT 1 / 0", {})
    session.commit()

    assert run(views.run_get(id)) is None
    assert made(run, "order-1", keyed=True)


def test_a_key_that_appears_under_a_repeatable_read_is_the_servers_error(
    run: Run, postgres_sessions: PostgresSessions
) -> None:
    """E22: the snapshot cannot show the winner, so the server says "could not serialize"."""
    session = postgres_sessions.open()
    session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
    assert session.run(runs.by_key(Kind.RUN, "mail", "order-1")) is None
    made(run, "order-1", keyed=True)

    with pytest.raises(psycopg.errors.SerializationFailure):
        session.run(runs.enqueue([NewRun("mail", "order-1", "{}", keyed=True)], now=NOW))


def test_nobody_is_notified_while_no_replica_is_idle(
    run: Run, notified: Callable[[], list[str]]
) -> None:
    """F09: a NOTIFY in every transaction would serialise the users' own commits."""
    busy = joined(run)
    made(run)
    run(schedules.tick([step(defined(run), NOW)], replica=busy, now=NOW))
    assert run(replicas.idle(busy, idle=True))
    assert run(replicas.leave(busy, now=NOW))
    made(run)

    assert notified() == []


def test_an_idle_replica_is_notified_of_new_runs_and_of_nothing_else(
    run: Run, notified: Callable[[], list[str]]
) -> None:
    """F06: a hint has no payload, so no size can make a commit fail."""
    idle = joined(run)
    assert run(replicas.idle(idle, idle=True))
    made(run, "k", keyed=True, args=f'"{"x" * 100_000}"')
    after_the_first = notified()
    assert run(runs.enqueue([NewRun("mail", "k", "{}", keyed=True)], now=NOW)) == ()
    schedule = defined(run)
    after_a_known_key = notified()
    run(schedules.tick([step(schedule, NOW)], replica=idle, now=NOW))
    after_a_tick = notified()
    run(schedules.tick([step(schedule, NOW)], replica=idle, now=NOW))

    assert (after_the_first, after_a_known_key, after_a_tick) == ([""], [], [""])
    assert notified() == []


def test_a_notification_comes_with_the_commit_and_not_before(
    run: Run, postgres_sessions: PostgresSessions, notified: Callable[[], list[str]]
) -> None:
    """E26: whoever is woken finds the row."""
    assert run(replicas.idle(joined(run), idle=True))
    session = postgres_sessions.open()
    made(session.run)
    before = notified()
    session.rollback()
    undone = notified()
    made(session.run)
    session.commit()

    assert (before, undone, notified()) == ([], [], [""])


@pytest.fixture
def notified(postgres_store: PostgresStore, postgres_url: str) -> Iterator[Callable[[], list[str]]]:
    """Return the payloads that have been sent since the last call."""
    channel = postgres_store.catalogue.prefix
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))

        def since() -> list[str]:
            # Notifications arrive in the order of commits: whatever was sent before is here first.
            connection.execute("SELECT pg_notify(%s, 'the end')", (channel,))
            payloads: list[str] = []
            for notification in connection.notifies(timeout=10):
                if notification.payload == "the end":
                    return payloads
                payloads.append(notification.payload)
            raise AssertionError("the server sends no notifications")

        yield since
