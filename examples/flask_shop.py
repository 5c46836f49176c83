"""A Flask shop in which every web worker is a replica, and each report is written once.

    export DATABASE_URL=postgresql://localhost/shop
    psql "$DATABASE_URL" --file examples/flask_shop.sql
    onejob --url "$DATABASE_URL" init
    gunicorn --workers 3 --preload --config python:examples.flask_shop examples.flask_shop:web

An order and the run that confirms it are committed together, or neither is. The report is written
in the run's own transaction: a worker that was killed, or that stood still and woke up late, cannot
write it a second time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from flask import Flask

from onejob import App, Run

DATABASE_URL = os.environ["DATABASE_URL"]

app = App(DATABASE_URL, name="shop", lease=os.environ.get("EXAMPLE_LEASE", "12s"))
web = Flask("shop")


def post_fork(server: object, worker: object) -> None:
    """Make this web worker a replica (a hook of gunicorn's, called in each worker).

    Calling ``app.start()`` while the module is imported works as well: under ``--preload`` that
    makes gunicorn's master a replica too, and each worker starts one of its own after the fork.
    """
    app.start()


@app.every(os.environ.get("EXAMPLE_EVERY", "1h"), catch_up="all", overlap="allow")
def report(run: Run) -> None:
    with run.transaction() as tx:
        if run.first("report", within=tx):
            tx.execute(
                "INSERT INTO report (fire_time, orders) SELECT %s, count(*) FROM orders",
                (run.fire_time,),
            )


@app.job()
def confirm(run: Run, number: int) -> None:
    with run.transaction(complete=True) as tx:
        tx.execute("UPDATE orders SET confirmed = confirmed + 1 WHERE number = %s", (number,))


@web.post("/orders/<int:number>")
def order(number: int) -> tuple[dict[str, Any], int]:
    """Take an order. Sent twice, by an impatient customer or a proxy, it is one order."""
    with database() as connection:
        connection.execute(
            "INSERT INTO orders (number) VALUES (%s) ON CONFLICT (number) DO NOTHING", (number,)
        )
        asked = confirm.using(key=f"order-{number}", within=connection).enqueue(number=number)
    return {"run": asked.run_id, "new": asked.created}, 202


@web.get("/replica")
def replica() -> dict[str, object]:
    status = app.status()
    return {"running": status.running, "text": str(status), "pid": os.getpid()}


@contextmanager
def database() -> Iterator[psycopg.Connection]:
    """Open a transaction of the shop's own; a real shop would have a pool."""
    with psycopg.connect(DATABASE_URL) as connection:
        yield connection
