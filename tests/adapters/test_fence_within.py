"""A run that is fenced in your transaction cannot be taken over before that ends, on any driver."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from adapters.conftest import Shop
from adapters.drivers import Session
from onejob import LeaseLost, StoreUnavailable, UsageError
from onejob.commands import runs
from onejob.core.run import Again, Outcome
from onejob.core.time import DAY, Span
from onejob.stores.sqlite import SqliteStore


@pytest.fixture
def job(shop: Shop) -> Any:
    return shop.job()


@pytest.fixture
def run(shop: Shop, session: Session, job: Any) -> Any:
    """A run in the colour of the driver."""
    return shop.begun(job, session.colour)


def write(session: Session, shop: Shop, note: str) -> None:
    session.execute(f"INSERT INTO {shop.table} VALUES ('{note}')")


def taken_over(shop: Shop, run: Any) -> bool:
    """Give the run back as the sweeper does, from another session; False where it may not."""
    command = runs.settle(
        [(run._claim, Again(0, Outcome.FAILED, "its replica was lost"))], keep=DAY
    )
    if shop.app.store.dialect != "sqlite":
        return bool(shop.app.store.run(command))
    impatient = SqliteStore(shop.app.store.where, patience=Span(20_000))
    try:
        return bool(impatient.run(command))
    except StoreUnavailable:
        return False
    finally:
        impatient.close()


def fenced(session: Session, run: Any, complete: bool = False) -> None:
    """Fence through the driver's own colour."""
    session.begin()
    if hasattr(session, "bridge"):
        session.bridge(run, complete)
    else:
        session.carry(run.fence(within=session.given, complete=complete))


def test_a_takeover_has_to_wait_for_the_fence(shop: Shop, session: Session, run: Any) -> None:
    """P2: two sessions, the first one open: the lock outlives the statement that took it."""
    note = secrets.token_hex(4)

    fenced(session, run)
    before_the_write = taken_over(shop, run)
    write(session, shop, note)
    before_the_commit = taken_over(shop, run)
    session.commit()
    after = taken_over(shop, run)

    assert (before_the_write, before_the_commit, after) == (False, False, True)
    assert shop.rows(note) == 1


def test_a_superseded_attempt_cannot_fence(shop: Shop, session: Session, run: Any) -> None:
    """A13: it learns so before it commits."""
    note = secrets.token_hex(4)
    assert taken_over(shop, run)

    write(session, shop, note)
    with pytest.raises(LeaseLost):
        fenced(session, run)
    session.rollback()

    assert shop.rows(note) == 0


def test_effect_ledger_and_completion_are_one_commit(
    shop: Shop, session: Session, job: Any, run: Any
) -> None:
    """B22, E24: after a rollback the run is not done, after the commit all three are there."""
    note = secrets.token_hex(4)

    def unit() -> bool:
        write(session, shop, note)
        first: bool = session.do(shop.app, "first", job.name, note, within=session.given)
        fenced(session, run, complete=True)
        return first

    assert unit()
    session.rollback()
    info = shop.app.runs.get(run.id)
    assert info is not None
    assert (info.state, shop.rows(note)) == ("running", 0)
    assert unit(), "the rollback took the key back with the row"
    session.commit()

    ended = shop.app.runs.get(run.id)
    assert ended is not None
    assert (ended.outcome, shop.rows(note)) == ("succeeded", 1)
    session.begin()
    assert not session.do(shop.app, "first", job.name, note, within=session.given)
    session.rollback()


def test_what_would_wait_for_your_transaction_is_refused_while_it_is_open(
    shop: Shop, session: Session, run: Any
) -> None:
    fenced(session, run)
    write(session, shop, "x")
    with pytest.raises(UsageError, match="would wait for itself"):
        session.call(lambda: run.progress(1))
    session.rollback()

    session.call(lambda: run.progress(1))


def test_a_connection_that_serves_another_transaction_by_now_is_no_fence(
    shop: Shop, session: Session, job: Any, run: Any
) -> None:
    """A pool lends it on, to other threads too: nothing of this run waits for those."""
    fenced(session, run)
    session.commit()
    session.execute("SELECT 1")

    session.call(lambda: run.progress(1))
    fenced(session, run)
    session.rollback()
    session.execute("SELECT 1")
    made = session.call(
        lambda: (job.enqueue if session.colour == "sync" else job.aenqueue)(image_id=2)
    )

    assert made.created
