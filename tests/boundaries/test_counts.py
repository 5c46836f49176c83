"""The counts themselves: zeros are believed only of a table that can show something else."""

from __future__ import annotations

import pytest

from boundaries.conftest import Make
from boundaries.doom import Boundary
from boundaries.fleet import Fleet, build, bury, doomed, recovering
from boundaries.place import SECOND, Place, counted, silent
from onejob.commands import runs
from onejob.commands.runs import NewRun
from onejob.core.time import Instant, text


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, make: Make) -> Place:
    return make(request.param)


def test_what_landed_twice_and_what_is_not_there_are_found(place: Place) -> None:
    place.query("INSERT INTO {t}landed VALUES ('write/1'), ('write/1')")

    count = counted(place, {"write/2"})

    assert (count.lost, count.doubled) == (("write/2",), ("write/1",))


def test_a_run_that_ended_without_its_effect_is_lost(place: Place) -> None:
    app = build(place, ticking=False)
    app.store.run(runs.enqueue([NewRun(job="write", key="1", args="{}", keyed=True)]))
    [[id]] = place.query("SELECT id FROM {t}run")

    before = counted(place, {"write/1"})
    app.runs.cancel(id)
    app.close()

    assert before.lost == ()
    assert any(name.startswith("write/1") for name in counted(place, {"write/1"}).lost)


def test_a_fire_time_that_nothing_tells_of_is_lost() -> None:
    start = 1_700_000_000 * SECOND
    fired = {start, start + SECOND, start + 4 * SECOND}
    told = {text(Instant(start + 2 * SECOND))}

    found = silent(fired, told, last=start + 4 * SECOND)

    assert found == {text(Instant(start + 3 * SECOND))}


@pytest.mark.slow
def test_a_handler_that_guards_nothing_is_seen_to_act_twice(place: Place, fleet: Fleet) -> None:
    """The mutant: the same death, the same recovery, and an effect without a ledger."""
    app = build(place, ticking=False)
    app.store.run(runs.enqueue([NewRun(job="naive", key="1", args="{}", keyed=True)]))
    app.close()

    fleet.start(doomed, place, Boundary("naive", "called"), False).join(20)
    bury(place)
    fleet.start(recovering, place, False).join(40)

    assert counted(place, {"naive/1"}).doubled == ("naive/1",)
