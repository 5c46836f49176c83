"""Two versions of the code at once: jobs that only one knows, schedules that both declare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from faults.processes import until
from onejob import App, Run
from onejob.commands import replicas, runs, views
from onejob.commands.schedules import read
from onejob.core.watermark import full_probes

LEASE = "1s"

NewApp = Callable[..., App]


@pytest.fixture(params=["sqlite", "postgresql"])
def version(request: pytest.FixtureRequest) -> Iterator[NewApp]:
    """Make Apps over one store, as processes of two versions would; all are closed at the end."""
    if request.param == "sqlite":
        url, schema = request.getfixturevalue("sqlite_url"), "onejob"
    else:
        url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("schema")
    made: list[App] = []

    def make(**options: Any) -> App:
        given = {"name": "shop", "lease": LEASE, "poll": "100ms", **options}
        app = App(url, schema=schema, **given)
        if not made:
            app.store.init()  # type: ignore[attr-defined]  # every store in a database has it
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


def test_a_job_that_nobody_knows_waits_parked_and_runs_at_its_first_attempt(
    version: NewApp,
) -> None:
    """F14: visible, no attempt spent, never thrown away."""
    old, new = version(), version()

    @old.job()
    def known() -> None: ...

    @new.job()
    def novel(run: Run) -> int:
        return run.attempt

    old.start()
    made = novel.enqueue()
    until(lambda: new.runs.get(made.run_id).state == "parked", "it is parked")  # type: ignore[union-attr]
    parked = new.runs.find(state="parked")
    new.start()
    ended = new.runs.wait(made.run_id, timeout="15s")

    assert [(run.job, run.attempt) for run in parked] == [("novel", 0)]
    assert (ended.outcome, ended.attempt, ended.result) == ("succeeded", 1, 1)


def test_a_job_that_only_the_newer_replica_knows_is_run_by_it_beside_the_older(
    version: NewApp,
) -> None:
    """F14, F18."""
    old, new = version(), version()

    @old.job(name="known")
    def known_of_old() -> str:
        return "old"

    @new.job()
    def known() -> str:
        return "new"

    @new.job()
    def novel() -> str:
        return "new"

    old.start()
    new.start()
    made = [novel.enqueue() for _ in range(5)] + [known.enqueue() for _ in range(5)]
    ended = [new.runs.wait(one.run_id, timeout="15s") for one in made]

    assert [(run.outcome, run.attempt) for run in ended] == [("succeeded", 1)] * 10
    assert [run.result for run in ended[:5]] == ["new"] * 5


@pytest.mark.slow
def test_two_versions_of_a_schedule_fire_each_time_once_and_the_newer_definition_stays(
    version: NewApp,
) -> None:
    """A16: the older writes nothing over the newer, and a rollback returns when it has gone."""
    old, new = version(), version()

    @old.every("1s", overlap="allow")
    def tick(run: Run, size: int = 1) -> int:
        return size

    @new.every("1s", name="tick", overlap="allow", args={"size": 2})
    def tick_of_two(run: Run, size: int) -> int:
        return size

    def definition() -> int:
        schedule = new.store.run(read(["tick"])).schedules[0]
        return 2 if schedule.definition == new._declared["tick"].definition else 1

    old.start()
    until(lambda: len(old.runs.find(state="ended")) >= 2, "two ticks")
    new.start()
    until(lambda: definition() == 2, "the newer definition stands")
    seen = len(old.runs.find(state="ended", limit=500))
    until(lambda: len(old.runs.find(state="ended", limit=500)) >= seen + 3, "three more ticks")
    stayed = definition()
    new.stop()
    until(lambda: definition() == 1, "the rollback has returned", seconds=20)
    seen = len(old.runs.find(state="ended", limit=500))
    until(lambda: len(old.runs.find(state="ended", limit=500)) >= seen + 2, "two more ticks")

    times = Counter(run.fire_time for run in old.runs.find(schedule="tick", limit=500))
    assert stayed == 2
    assert set(times.values()) == {1}


@pytest.mark.slow
def test_every_process_of_an_old_generation_is_harmless_and_visible(version: NewApp) -> None:
    """A18: four processes of two versions, one run a tick, and all of them listed."""
    apps = [version(version=1) for _ in range(3)] + [version(version=2)]
    for app in apps:

        @app.every("1s", overlap="allow")
        def tick(run: Run) -> None: ...

        app.start()
    until(lambda: len(apps[0].runs.find(state="ended")) >= 3, "three ticks")

    live = [one for one in apps[0].store.run(views.replicas()) if not one.dead_at]
    times = Counter(run.fire_time for run in apps[0].runs.find(schedule="tick", limit=500))
    assert sorted(one.version for one in live) == ["1", "1", "1", "2"]
    assert set(times.values()) == {1}


def test_a_process_that_was_declared_dead_can_claim_nothing_more(version: NewApp) -> None:
    """F10: a new start is a new replica, whatever its host is called."""
    app = version()
    new = replicas.NewReplica("a" * 12, "shop", "host", 7, "", ["job"], {}, 60_000_000)  # type: ignore[arg-type]
    assert app.store.run(replicas.join(new))
    assert app.store.run(replicas.leave(new.id))

    assert not app.store.run(replicas.renew(new.id, lease=60_000_000))
    assert not app.store.run(replicas.join(new))
    claim = runs.claim(full_probes(["default"]), jobs=["job"], replica=new.id, limit=1)
    app.store.run(runs.enqueue([runs.NewRun("job", "one", "{}", keyed=True)]))
    assert app.store.run(claim) == ()
