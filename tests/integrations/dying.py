"""Carry one order out in a process of its own, and be killed on the way: ``KIND DATABASE INSTANT``.

INSTANT is ``begun`` (nothing written yet), ``written`` (the order is committed), ``recorded`` (its
answer is, and nobody has been sent it), or "" for never.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

from integrations.endpoints import Got, Handler, Said
from onejob import App


def orders_of(app: App, database: str, here: Callable[[str], None]) -> Handler:
    """Return a service that writes each order together with its mark, in one commit."""

    def order(got: Got) -> Said:
        here("begun")
        assert got.claim is not None
        shop = sqlite3.connect(database, timeout=10)
        if app.first("orders", got.claim.id, within=shop):
            shop.execute("INSERT INTO orders VALUES (?)", (got.body.decode(),))
        shop.commit()
        [count] = shop.execute("SELECT count(*) FROM orders").fetchone()
        shop.close()
        here("written")
        return Said(201, parts=(f"{count} in all".encode(),))

    return order


def main(kind: str, database: str, instant: str) -> None:
    from integrations.endpoints import Endpoint

    app = App(f"sqlite:///{database}", single_machine=True)

    def here(reached: str) -> None:
        if reached == instant:
            os.kill(os.getpid(), signal.SIGKILL)

    store: Any = app.store
    run = store.run

    def watched(command: Any, *given: Any) -> Any:
        answer = run(command, *given)
        if command.name == "inbox_record":
            here("recorded")
        return answer

    store.run = watched
    Endpoint(kind, app, orders_of(app, database, here)).ask("k-1")


if __name__ == "__main__":
    main(*sys.argv[1:])
