from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from onejob import App, Run, UsageError
from onejob.core.cron import Cron
from onejob.core.schedule import Every


def report(tenant: int = 1) -> None: ...


@pytest.mark.parametrize(
    ("expression", "options", "match"),
    [
        ("61 * * * *", {}, "minute"),
        ("* * * *", {}, "fields"),
        ("0 2 * * *", {"tz": "Europe/Berlim"}, "Europe/Berlin"),
        (7, {}, "is text"),
        ("0 2 * * *", {"on_gap": "run"}, "on_gap='run' must be 'shift' or 'skip'"),
        ("0 2 * * *", {"on_fold": "last"}, "on_fold='last' must be 'first', 'second' or 'both'"),
        ("0 2 * * *", {"catch_up": "some"}, "catch_up"),
        ("0 2 * * *", {"catch_up_cap": 0}, "catch_up_cap"),
        ("0 2 * * *", {"overlap": "never"}, "overlap"),
        ("0 2 * * *", {"max_lateness": "-1h"}, "max_lateness"),
        ("0 2 * * *", {"priority": 11}, "priority"),
        ("0 2 * * *", {"args": {"tennant": 1}}, "tennant"),
        ("0 2 * * *", {"args": {"tenant": "one"}}, r"args\.tenant"),
        ("0 2 * * *", {"args": [1]}, "arguments by name"),
        ("0 2 * * *", {"args": [("tenant", 1)]}, "arguments by name"),
        ("0 2 * * *", {"args": ""}, "arguments by name"),
        ("0 2 * * *", {"catch_up_cap": "3"}, "catch_up_cap"),
        ("0 2 * * *", {"catch_up_cap": True}, "catch_up_cap"),
    ],
)
def test_a_bad_schedule_is_refused_when_it_is_written(
    expression: Any, options: dict[str, Any], match: str
) -> None:
    app = App("memory://")

    with pytest.raises(UsageError, match=match):
        app.cron(expression, **options)(report)

    assert app.jobs == {}
    assert app._declared == {}


def test_a_scheduled_job_whose_arguments_are_missing_is_refused() -> None:
    def needs(tenant: int) -> None: ...

    with pytest.raises(UsageError, match="missing a required argument: 'tenant'"):
        App("memory://").cron("0 2 * * *")(needs)


@pytest.mark.parametrize("interval", [0, "500ms", "-5m", "often"])
def test_a_bad_interval_is_refused(interval: Any) -> None:
    with pytest.raises(UsageError, match="interval"):
        App("memory://").every(interval)


def test_a_naive_anchor_is_refused() -> None:
    with pytest.raises(UsageError, match="names no time zone"):
        App("memory://").every("5m", anchor=datetime(2026, 1, 1))  # noqa: DTZ001 - under test


def test_an_interval_stands_on_one_grid_for_all_replicas() -> None:
    """A23: not on the start of a process."""
    declared = []
    for _ in range(2):
        app = App("memory://")
        app.every("5m")(report)
        declared.append(app._declared["report"])

    assert declared[0] == declared[1]
    assert declared[0].timing == Every(300_000_000, 0)  # type: ignore[arg-type]
    anchored = App("memory://")
    anchored.every("5m", anchor=datetime(1970, 1, 1, 0, 1, tzinfo=UTC))(report)
    assert anchored._declared["report"].timing.anchor == 60_000_000  # type: ignore[union-attr]


def test_a_cron_expression_keeps_its_zone() -> None:
    app = App("memory://")
    app.cron("0  2 * * *", tz=ZoneInfo("Europe/Berlin"))(report)

    declared = app._declared["report"]
    assert declared.timing == Cron("0 2 * * *", "Europe/Berlin")
    assert declared.timing_text == '{"cron":"0 2 * * *","tz":"Europe/Berlin"}'


def definition(**options: Any) -> str:
    app = App("memory://")
    expression = options.pop("expression", "0 2 * * *")
    app.cron(expression, **options)(report)
    (declared,) = app._declared.values()
    return declared.definition


def test_a_definition_changes_with_whatever_decides_what_fires() -> None:
    """A16: replicas compare definitions by this hash."""
    changes: list[dict[str, Any]] = [
        {"expression": "0 3 * * *"},
        {"tz": "Europe/Berlin"},
        {"on_gap": "skip"},
        {"on_fold": "both"},
        {"catch_up": "all"},
        {"catch_up_cap": 7},
        {"max_lateness": "1h"},
        {"overlap": "allow"},
        {"args": {"tenant": 2}},
        {"queue": "reports"},
        {"priority": 3},
        {"on_replica_loss": "fail"},
        {"name": "other"},
    ]

    hashes = [definition(), *(definition(**change) for change in changes)]

    assert len(set(hashes)) == len(hashes)
    assert definition() == definition(timeout="5m", expression="0  2 * * *")


def test_a_scheduled_job_is_a_job_as_well() -> None:
    app = App("memory://")

    @app.cron("0 2 * * *")
    def nightly(run: Run, tenant: int = 1) -> int:
        return tenant

    assert nightly.enqueue(tenant=2).created
    assert nightly.name == "nightly"


def test_schedules_are_listed_paused_and_resumed(app: App) -> None:
    @app.cron("0 2 * * *", tz="Europe/Berlin", args={"tenant": 42})
    def nightly(tenant: int) -> None: ...

    joined = wait_for(app, "replica.joined")
    app.start()
    joined.wait(10)
    until(lambda: app.schedules.get("nightly") is not None)

    paused = app.schedules.pause("nightly")
    resumed = asyncio.run(app.schedules.aresume("nightly"))

    [listed] = app.schedules.list()
    assert (paused.paused, resumed.paused, listed.paused) == (True, False, False)
    assert listed.timing == {"cron": "0 2 * * *", "tz": "Europe/Berlin"}
    assert listed.declared == 1
    assert listed.next_fire is not None
    assert listed.next_fire - datetime.now(timezone.utc) < timedelta(hours=25)  # noqa: UP017
    with pytest.raises(LookupError, match="no schedule 'daily'"):
        app.schedules.pause("daily")
    assert app.schedules.get("daily") is None


def wait_for(app: App, name: str) -> Any:
    from threading import Event as Flag

    flag = Flag()
    app.events.listen(lambda event: flag.set() if event.name == name else None)
    return flag


def until(condition: Any) -> None:
    """Wait for what another thread writes to the store, where no event tells of it."""
    from time import monotonic, sleep

    ends = monotonic() + 10
    while not condition():
        assert monotonic() < ends, "it never came"
        sleep(0.02)
