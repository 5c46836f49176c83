"""A holder that stands still inside its fenced transaction keeps neither the run nor the others.

PostgreSQL itself ends a transaction that sits idle for a lease, so the takeover needs no help from
the one that stands still; and what that one commits later is refused.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from boundaries.conftest import Make
from boundaries.fleet import Fleet, build, until, working
from boundaries.place import Place, counted
from boundaries.proxy import Proxy
from boundaries.tables import Row

LEASE = 2.0
#: Sweep, claim and a busy machine, beyond the lease.
A_LITTLE = 3.0


@pytest.fixture
def place(make: Make) -> Place:
    return make("postgresql")


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    with Proxy(place.url.partition("?")[0], place.schema) as proxy:
        yield proxy


@pytest.mark.slow
@pytest.mark.parametrize("job", ["hold", "ahold"])
def test_a_frozen_holder_of_a_transaction_is_taken_over(
    job: str, place: Place, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """P2, P3: SIGSTOP inside ``run.transaction()``; thawed, it commits nothing."""
    enqueue(place, job)
    holder = fleet.start(working, place, False, {})
    until(lambda: place.marked("held"), seconds=20, what="it holds")
    heir(place, fleet)

    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGSTOP)
    seconds = taken_over(place)
    os.kill(holder.pid, signal.SIGCONT)

    refused(place, job, "frozen", seconds, tabled)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["hold", "ahold"])
def test_a_black_holed_holder_of_a_transaction_is_taken_over(
    job: str, place: Place, proxy: Proxy, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """P2, P3: its network is silent inside ``run.transaction()``, and comes back afterwards."""
    enqueue(place, job)
    fleet.start(working, replace(place, url=proxy.url, looking=place.url), False, {})
    until(lambda: place.marked("held"), seconds=20, what="it holds")
    heir(place, fleet)

    proxy.hole()
    seconds = taken_over(place)
    proxy.back()

    refused(place, job, "black hole", seconds, tabled)


@pytest.mark.slow
def test_a_holder_in_a_black_hole_is_stopped_before_another_one_starts(
    place: Place, proxy: Proxy, fleet: Fleet
) -> None:
    """P6: its lease ends by its own clock, also while a request of its keeper is unanswered."""
    enqueue(place, "linger")
    fleet.start(working, replace(place, url=proxy.url, looking=place.url), False, {})
    until(lambda: place.marked("held"), seconds=20, what="it holds")
    heir(place, fleet)

    proxy.hole()
    taken_over(place)

    assert place.marked("out-1") == "CancelledError"


def enqueue(place: Place, job: str) -> None:
    app = build(place, ticking=False)
    app.jobs[job].using(key="1").enqueue()
    app.close()


def heir(place: Place, fleet: Fleet) -> None:
    """Start the other replica, and let it watch for the lease that a judge must have watched."""
    fleet.start(working, place, False, {})
    live = "SELECT count(*) FROM {t}replica WHERE dead_at = 0"
    until(lambda: place.query(live) == [(2,)], seconds=15, what="two replicas")
    time.sleep(LEASE + 0.5)


def taken_over(place: Place) -> float:
    """Return how long it takes until the second attempt has committed."""
    since = time.monotonic()
    until(lambda: place.marked("out-2"), seconds=15, what="taken over")
    assert place.marked("out-2") == "committed"
    return time.monotonic() - since


def refused(
    place: Place, job: str, fault: str, seconds: float, tabled: Callable[[Row], None]
) -> None:
    """See that the first attempt, let go, commits nothing and says why."""
    place.mark("go")
    until(lambda: place.marked("out-1"), seconds=15, what="the first attempt is over")
    until(lambda: place.open_runs() == 0, seconds=15, what="the run has ended")
    count = counted(place, {f"{job}/1"})
    out = place.marked("out-1")
    tabled(
        Row(
            table="a holder inside run.transaction()",
            store="postgresql",
            fault=f"{fault}, {'async' if job == 'ahold' else 'sync'}",
            injected=1,
            runs=count.runs,
            lost=len(count.lost),
            doubled=len(count.doubled),
            note=f"taken over after {seconds:.1f} s, lease {LEASE:.0f} s; the stale one: {out}",
        )
    )
    assert (count.lost, count.doubled) == ((), ())
    # An async handler may have been cancelled first, as soon as its replica knew.
    assert out in ({"LeaseLost", "CancelledError"} if job == "ahold" else {"LeaseLost"})
    assert seconds < LEASE + A_LITTLE
