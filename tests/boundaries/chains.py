"""Processes that work on chains: a run enqueues the next one and ends, in one transaction."""

from __future__ import annotations

import logging
import os
import time

from boundaries.doom import Boundary, Doom
from boundaries.fleet import SOON, build
from boundaries.place import Place
from onejob import App, Run

CHAINS, LINKS = 2, 5


def chained(place: Place, doom: Doom | None = None) -> App:
    """Return an App with the job ``link``. Successors have no key: a second one would show."""
    app = build(place, doom=doom, ticking=False)

    @app.job(retry=SOON)
    def link(run: Run, chain: int, number: int) -> None:
        with run.transaction(complete=True) as connection:
            place.land(connection, name(chain, number))
            if number < LINKS:
                link.using(within=connection).enqueue(chain, number + 1)

    for chain in range(CHAINS):
        link.using(key=f"chain-{chain}").enqueue(chain, 1)
    return app


def name(chain: int, number: int) -> str:
    """Return how a link is named where it has landed."""
    return f"link/{chain}-{number}"


def dying(place: Place, boundary: Boundary) -> None:
    """Begin the chains, and die at a boundary somewhere in them."""
    logging.disable(logging.CRITICAL)
    work(place, chained(place, Doom(boundary)))


def going_on(place: Place) -> None:
    """Begin the same chains, which are known, and work until all of them have ended."""
    logging.disable(logging.CRITICAL)
    work(place, chained(place))


def work(place: Place, app: App) -> None:
    """Work until nothing is left."""
    app.start()
    patience = time.monotonic() + 25
    while place.open_runs():
        if time.monotonic() > patience:
            os._exit(3)
        time.sleep(0.05)
    app.close()
