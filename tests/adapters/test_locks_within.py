"""A lock's lease, and a token at a resource, guard your transaction on any driver."""

from __future__ import annotations

import secrets
import sqlite3
from typing import Any

import psycopg
import pytest

from adapters.conftest import Shop
from adapters.drivers import EVERY, Session
from onejob import StaleToken

#: The bridge is for sync code below an AsyncSession; the fences of runs show that it is one.
DRIVERS = [name for name in EVERY if "bridged" not in name]


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def others_wait(shop: Shop, text: str) -> bool:
    """Tell whether another session, locking as a takeover does, has to wait for this one."""
    if shop.app.store.dialect == "sqlite":
        connection = sqlite3.connect(shop.app.store.where, timeout=0.02)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        finally:
            connection.close()
        return False
    with psycopg.connect(shop.url) as other:
        other.execute("SET lock_timeout = '30ms'")
        try:
            found = other.execute(text.encode()).rowcount
        except psycopg.errors.LockNotAvailable:
            return True
        other.rollback()
    assert found == 1
    return False


def test_a_locks_lease_cannot_change_hands_under_its_fence(shop: Shop, session: Session) -> None:
    """Two sessions: the row is locked to the end of the caller's transaction."""
    name = f"nightly-{secrets.token_hex(4)}"
    lock = shop.app.lock(name, ttl="60s")
    prefix = "" if "sqlite" in shop.url else f'"{shop.app.schema}".'
    text = f"SELECT 1 FROM {prefix}lease WHERE name = '{name}' FOR UPDATE"
    seen: list[bool] = []

    def held(lease: Any) -> None:
        seen.append(others_wait(shop, text))

    def inside() -> None:
        with lock as lease:
            lease.fence(within=session.given)
            held(lease)
            session.rollback()
            seen.append(others_wait(shop, text))

    async def ainside() -> None:
        async with lock as lease:
            await lease.fence(within=session.given)
            held(lease)
            await rolled_back(session)
            seen.append(others_wait(shop, text))

    session.begin()
    session.call(inside if session.colour == "sync" else ainside)

    assert seen == [True, False]


async def rolled_back(session: Session) -> None:
    transaction: Any = getattr(session, "_transaction", session.raw)
    await transaction.rollback()


def test_the_highest_token_at_a_resource_wins(shop: Shop, session: Session) -> None:
    """C09: a stale holder is refused in its transaction; what is rolled back was never known."""
    resource = f"export-{secrets.token_hex(4)}"

    def fence(token: int) -> None:
        session.begin()
        session.do(shop.app, "fence", resource, token, within=session.given)

    fence(90)
    session.rollback()
    fence(7)
    session.commit()
    fence(7)
    session.commit()
    with pytest.raises(StaleToken, match="has 7"):
        fence(6)
    session.rollback()
    fence(8)
    session.commit()
