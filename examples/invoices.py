"""Monthly invoices: every replica fires, one does the work, each customer gets one invoice.

    export DATABASE_URL=postgresql://localhost/shop
    psql "$DATABASE_URL" --file examples/invoices.sql
    python -m examples.invoices 2026-03       # from the crontab of each replica, at the same minute

Two guards, and only one of them makes it correct. The advisory lock saves the losers their work; it
is a number, 842001, that other services know too. UNIQUE (customer_id, period) is what makes a
second run harmless. INVOICES_LOCK=off takes the lock away: the invoices are the same.
"""

from __future__ import annotations

import os
import sys
import time

import psycopg

from onejob import transaction_lock

LOCK = 842_001


def invoice_all(connection: psycopg.Connection, period: str) -> int | None:
    """Make the invoices of a period that are not there yet; None: another replica is at it."""
    if os.environ.get("INVOICES_LOCK") != "off" and not transaction_lock(connection, LOCK):
        return None
    made = 0
    # In one order everywhere: two that insert the same keys crosswise would deadlock.
    for (customer,) in connection.execute("SELECT id FROM customer ORDER BY id").fetchall():
        inserted = connection.execute(
            "INSERT INTO invoice (customer_id, period) VALUES (%s, %s) "
            "ON CONFLICT (customer_id, period) DO NOTHING",
            (customer, period),
        )
        made += inserted.rowcount
        time.sleep(float(os.environ.get("EXAMPLE_PAUSE", "0")))
    return made


def main(period: str) -> None:
    # One transaction: it commits at the end of the block, and the lock goes with it.
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        made = invoice_all(connection, period)
    print(f"{period}: another replica is at it" if made is None else f"{period}: {made} invoices")


if __name__ == "__main__":
    main(sys.argv[1])
