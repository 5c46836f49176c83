"""What joining your transaction costs: one statement, and nothing around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from adapters.conftest import Shop
from adapters.counting import Counting
from adapters.drivers import POSTGRESQL, Session, opened

Wire = tuple[Session, Counting]


@pytest.fixture(params=POSTGRESQL)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def wire(driver: str, postgres_shop: Shop) -> Iterator[Wire]:
    """A session with a transaction open, whose messages are counted from here on."""
    with Counting(postgres_shop.url) as counting, opened(driver, counting.url) as session:
        session.execute("SELECT 1")
        counting.reset()
        yield session, counting
        session.rollback()


def test_enqueueing_costs_one_statement(postgres_shop: Shop, wire: Wire) -> None:
    """E10: no savepoint around it, no second look, no ping; with a key as well."""
    session, counting = wire
    job: Any = postgres_shop.job()

    answer = session.do(job.using(within=session.given, key="img-7"), "enqueue", 7)

    assert answer.created
    assert counting.statements == 1


def test_first_costs_one_statement(postgres_shop: Shop, wire: Wire) -> None:
    """E10"""
    session, counting = wire

    assert session.do(postgres_shop.app, "first", "digest", "7", within=session.given)
    assert counting.statements == 1


def test_a_fence_costs_one_statement_and_one_more_where_it_completes(
    postgres_shop: Shop, wire: Wire
) -> None:
    """E10"""
    session, counting = wire
    run = postgres_shop.begun(postgres_shop.job(), session.colour)
    bridge: Any = getattr(session, "bridge", None)

    for complete in (False, True):
        if bridge is not None:
            bridge(run, complete)
        else:
            session.carry(run.fence(within=session.given, complete=complete))

    assert counting.statements == 3
