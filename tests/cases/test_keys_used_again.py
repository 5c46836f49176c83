"""A key that is asked for again: by a second pod of one tick, or by a producer, weeks later."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cases.conftest import Place
from onejob import App
from onejob.cli.root import root
from onejob.commands import runs, views
from onejob.core.run import End, Outcome
from onejob.testing.conformance.given import claim, joined

POD = """
import os
from onejob import App
app = App(schema=os.environ["ONEJOB_SCHEMA"])

@app.job()
def report() -> None: ...
"""


def finish(app: App, job: str) -> None:
    """Let a replica execute what is due, and forget what ended as soon as somebody purges."""
    run, now = app.store.run, app.store.run(views.clock())
    [held] = claim(run, joined(run, jobs=[job], now=now), jobs=[job], now=now)
    assert run(runs.settle([(held.claim, End(Outcome.SUCCEEDED))], keep=0))


def test_a_second_pod_of_one_fire_time_has_nothing_to_do(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A19, A20: while the first is at work, and after it has ended; exit 0 either time."""
    (tmp_path / "pod.py").write_text(POD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pod", raising=False)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)

    def pod() -> Result:
        words = ["trigger", "pod:app", "report", "--key", "report-29383920"]
        return CliRunner().invoke(root, words)

    first, beside = pod(), pod()
    finish(place.app(), "report")
    after = pod()

    assert [one.exit_code for one in (first, beside, after)] == [0, 0, 0]
    assert "known already" not in first.output
    assert "known already" in beside.output
    assert "known already" in after.output
    assert len(place.app().runs.find()) == 1


def test_a_key_gives_the_earlier_run_or_a_fresh_one_and_never_a_mixture(place: Place) -> None:
    """B19: until it is forgotten the old run is meant; the new one has no times and no attempts."""
    app = place.app()

    @app.job()
    def resize() -> None: ...

    using = resize.using(key="img-7")
    old = using.enqueue()
    finish(app, "resize")
    again = using.enqueue()
    assert app.store.run(runs.purge(limit=10, now=app.store.run(views.clock()) + 1)) == 1
    fresh = using.enqueue()

    assert (again.run_id, again.created) == (old.run_id, False)
    assert (fresh.created, fresh.run_id != old.run_id) == (True, True)
    run = app.runs.get(fresh.run_id)
    assert run is not None
    assert (run.state, run.attempt, run.started, run.outcome) == ("scheduled", 0, None, None)
