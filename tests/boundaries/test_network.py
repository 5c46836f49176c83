"""A network that loses replies, cuts requests and falls silent, between a replica and PostgreSQL.

The client can't tell a lost reply from a lost request: whatever it makes of it, the counts hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from boundaries.conftest import Make
from boundaries.fleet import ASKED, Fleet, build, names, recovering, until, working
from boundaries.place import Count, Place, counted
from boundaries.proxy import Fault, Proxy
from boundaries.tables import Row
from onejob import OutcomeUnknown
from onejob.errors import StoreUnavailable

COMMANDS = (
    "run_claim",
    "commit",
    "run_settle",
    "effect_claim_in_run",
    "effect_record",
    "schedule_tick",
    "replica_join",
    "replica_renew",
)


@pytest.fixture
def place(make: Make) -> Place:
    return make("postgresql")


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    with Proxy(place.url.partition("?")[0], place.schema) as proxy:
        yield proxy


def behind(proxy: Proxy, place: Place) -> Place:
    return replace(place, url=proxy.url, looking=place.url)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("fault", ["reply", "request"])
def test_a_network_that_breaks_at_a_command_costs_no_run(
    fault: Fault, make: Make, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """D08, P3: a lost reply or request costs no run and doubles none; nobody restarts anything."""
    places = [make("postgresql") for _ in COMMANDS]

    def broken(command: str, place: Place) -> tuple[int, Count]:
        with Proxy(place.url.partition("?")[0], place.schema) as proxy:
            proxy.inject(command, fault, 2)
            alone = fleet.start(recovering, behind(proxy, place), True)
            alone.join(60)
            assert alone.exitcode == 0, f"{command}: not done in time"
            assert proxy.injected >= 1, f"{command}: nothing was lost"
            return proxy.injected, counted(place, ASKED)

    with ThreadPoolExecutor(len(COMMANDS)) as threads:
        found = list(threads.map(broken, COMMANDS, places))

    for command, (injected, count) in zip(COMMANDS, found, strict=True):
        tabled(
            Row(
                table="the network",
                store="postgresql",
                fault=f"{command}: {fault} lost",
                injected=injected,
                runs=count.runs,
                unknown=count.unknown,
                lost=len(count.lost),
                doubled=len(count.doubled),
            )
        )
    assert [count for _, count in found if count.lost or count.doubled] == []


@pytest.mark.slow
def test_an_enqueue_without_a_key_says_that_its_outcome_is_unknown(
    place: Place, proxy: Proxy
) -> None:
    """D08: nobody can tell whether this run is there, so nobody may guess."""
    app = build(behind(proxy, place), ticking=False)

    proxy.inject("run_enqueue_one", "reply", 1)
    with pytest.raises(OutcomeUnknown) as unknown:
        app.jobs["write"].enqueue()
    app.close()

    assert unknown.value.code
    assert place.query("SELECT count(*) FROM {t}run") == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["reply", "request"])
def test_an_enqueue_with_a_key_is_never_unknown(fault: Fault, place: Place, proxy: Proxy) -> None:
    """P1, D08: by its key the run can be found, whether it was this request that made it or not."""
    app = build(behind(proxy, place), ticking=False)
    write = app.jobs["write"]

    proxy.inject("run_enqueue_keyed", fault, 1)
    answer = write.using(key="k").enqueue()
    app.close()

    assert place.query("SELECT id FROM {t}run") == [(answer.run_id,)]
    assert proxy.injected == 1


@pytest.mark.slow
def test_reading_through_a_breaking_network_never_says_unknown(place: Place, proxy: Proxy) -> None:
    app = build(behind(proxy, place), ticking=False)
    run_id = app.jobs["write"].using(key="k").enqueue().run_id

    for command in ("view_run", "run_by_key"):
        for fault in ("reply", "request"):
            proxy.inject(command, fault, 9)
            try:
                app.runs.get(run_id)
                app.jobs["write"].using(key="k").enqueue()
            except StoreUnavailable:
                pass
            proxy.inject(command, fault, 0)
    app.close()

    assert place.query("SELECT count(*) FROM {t}run") == [(1,)]


@pytest.mark.slow
def test_a_black_hole_for_longer_than_the_lease_costs_no_run(
    place: Place, proxy: Proxy, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """P2, P3, P6: the silent one's runs are taken over; what it sends afterwards is refused."""
    asked = names("slow", range(12))
    app = build(place, ticking=False)
    for n in range(12):
        app.jobs["slow"].using(key=str(n)).enqueue()
    silent = fleet.start(working, behind(proxy, place), True, {})
    until(
        lambda: place.query("SELECT 1 FROM {t}run WHERE state = 'running'"),
        seconds=15,
        what="running",
    )
    fleet.start(working, place, True, {})
    until(
        lambda: place.query("SELECT count(*) FROM {t}replica WHERE dead_at = 0") == [(2,)],
        seconds=15,
        what="two replicas",
    )

    proxy.hole()
    time.sleep(6)
    proxy.back()
    until(lambda: place.open_runs() == 0, seconds=25, what="all runs have ended")

    assert silent.is_alive()
    count = counted(place, asked)
    tabled(
        Row(
            "the network",
            "postgresql",
            "silent for three leases",
            1,
            count.runs,
            count.unknown,
            len(count.lost),
            len(count.doubled),
        )
    )
    app.close()
    assert (count.lost, count.doubled) == ((), ())
