"""``python -m examples.invoices``, fired on three replicas at once: with its lock, and without."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CUSTOMERS = 12
PERIOD = "2026-03"


@pytest.fixture
def shop(database: str) -> str:
    with psycopg.connect(database) as connection:
        connection.execute((ROOT / "examples" / "invoices.sql").read_bytes())
        connection.execute(
            "INSERT INTO customer SELECT n, 'customer ' || n FROM generate_series(1, %s) AS n",
            (CUSTOMERS,),
        )
    return database


def fire(shop: str, **environment: str) -> list[str]:
    """Start three replicas at once, and return what each of them printed."""
    replicas = [
        subprocess.Popen(
            [sys.executable, "-m", "examples.invoices", PERIOD],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": shop, "EXAMPLE_PAUSE": "0.03", **environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    printed = [replica.communicate(timeout=30)[0].strip() for replica in replicas]
    assert [replica.returncode for replica in replicas] == [0, 0, 0]
    return printed


def made(printed: list[str]) -> int:
    return sum(int(found[1]) for line in printed if (found := re.search(r"(\d+) invoices", line)))


def invoices(shop: str) -> list[tuple[int, str]]:
    with psycopg.connect(shop) as connection:
        text = "SELECT customer_id, period FROM invoice ORDER BY customer_id, period"
        return connection.execute(text).fetchall()


WANTED = [(customer, PERIOD) for customer in range(1, CUSTOMERS + 1)]


def test_three_replicas_fire_and_each_customer_has_one_invoice(shop: str) -> None:
    """C14, A01: one does the work, and the others say so, or find nothing left to do."""
    printed = fire(shop)

    assert invoices(shop) == WANTED
    assert made(printed) == CUSTOMERS
    assert f"{PERIOD}: {CUSTOMERS} invoices" in printed
    assert made(fire(shop)) == 0, "fired again, it finds nothing to do"


def test_without_the_lock_the_invoices_are_the_same(shop: str) -> None:
    """C14: the lock saves work; the unique key is what makes the second run harmless."""
    printed = fire(shop, INVOICES_LOCK="off")

    assert invoices(shop) == WANTED
    assert made(printed) == CUSTOMERS
    assert all("another replica" not in line for line in printed)


def test_code_that_takes_the_same_number_holds_all_three_off(shop: str) -> None:
    """The number is the lock: a service that knows nothing of onejob takes it too."""
    with psycopg.connect(shop) as other:
        other.execute("SELECT pg_advisory_xact_lock(842001)")
        printed = fire(shop)

    assert printed == [f"{PERIOD}: another replica is at it"] * 3
    assert invoices(shop) == []
