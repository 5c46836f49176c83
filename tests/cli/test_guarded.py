"""Schedules of guarded schedulers: listed, and found by the names that their users gave them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.conftest import Shop
from cli.test_look import NOW, define
from onejob import App
from onejob.cli.root import root
from onejob.commands import claims
from onejob.commands.claims import Won

HOUR = 3_600_000_000
KEY = "2026-03-29T01:00:00Z"
UNNAMED = "apscheduler:shop.jobs.tidy interval[0:00:04] UTC"


def fired(shop: Shop, *names: str) -> None:
    """Let one tick of each have been fired."""
    for name in names:
        won = shop.app.store.run(
            claims.take(
                claims.TICK, name, f"{name}@{KEY}",
                owner="host-1:4711/aa", lease=HOUR, keep=HOUR, now=NOW,
            )
        )  # fmt: skip
        assert isinstance(won, Won)
        assert shop.app.store.run(claims.end(won.claim, keep=HOUR, now=NOW + 1_000_000))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("nightly", "apscheduler:nightly"),
        ("apscheduler:nightly", "apscheduler:nightly"),
        ("tidy", UNNAMED),
        ("shop.jobs.tidy", UNNAMED),
        (UNNAMED, UNNAMED),
    ],
)
def test_why_finds_a_guarded_schedule_by_the_name_that_its_user_gave(
    shop: Shop, said: str, meant: str
) -> None:
    fired(shop, "apscheduler:nightly", UNNAMED, "celery:digest")

    latest = shop.json("why", said)
    by_time = shop.json("why", said, KEY)

    assert latest["job"] == by_time["job"] == meant
    assert [tick["outcome"] for tick in latest["ticks"]] == ["fired"]


def test_a_name_that_several_guarded_schedules_have_is_asked_for_in_full(shop: Shop) -> None:
    fired(shop, "apscheduler:nightly", "celery:nightly")

    result = shop.invoke("why", "nightly")

    assert result.exit_code == 2
    assert "'apscheduler:nightly', 'celery:nightly'. Say which." in result.stderr
    assert shop.json("why", "celery:nightly")["job"] == "celery:nightly"


def test_a_part_of_a_name_is_no_name(shop: Shop) -> None:
    fired(shop, "apscheduler:nightly")

    assert "nothing is known of 'night'" in shop.invoke("why", "night").stderr


def test_schedules_lists_guarded_ones_beside_its_own(shop: Shop) -> None:
    define(shop)
    fired(shop, "apscheduler:nightly", "celery:digest")

    found = shop.json("schedules")
    shown = shop.invoke("schedules").stdout

    assert [(one["name"], one["state"]) for one in found[1:]] == [
        ("apscheduler:nightly", "guarded"),
        ("celery:digest", "guarded"),
    ]
    assert (found[1]["last"], found[1]["claimed_by"]) == (KEY, "host-1:4711")
    assert "by apscheduler" in shown
    assert "of 2 schedules: none unknown or missed" in shop.invoke("doctor").stdout
    assert [one["name"] for one in shop.json("schedules", "--prefix", "dig")] == ["celery:digest"]
    assert [one["name"] for one in shop.json("schedules", "--job", "nightly")] == ["nightly"]


@pytest.mark.parametrize("server", ["redis", "mariadb"])
def test_where_no_runs_are_kept_guarded_schedules_are_listed_and_found(
    request: pytest.FixtureRequest, tmp_path: Path, server: str
) -> None:
    url, schema = (request.getfixturevalue(f"{server}_{what}") for what in ("url", "schema"))
    with closing(App(url, schema=schema)) as app:
        assert CliRunner().invoke(root, ["init", "--url", url, "--schema", schema]).exit_code == 0
        shop = Shop(app, url, schema, tmp_path)
        before = [shop.invoke(*asked).stderr for asked in (("schedules",), ("runs",))]
        fired(shop, "apscheduler:nightly")
        listed = shop.json("schedules")
        found = shop.json("why", "nightly")
        nothing = shop.invoke("why", "nonsense")

    assert all("cannot keep runs, schedules and effects." in said for said in before)
    assert [one["name"] for one in listed] == ["apscheduler:nightly"]
    assert found["job"] == "apscheduler:nightly"
    assert nothing.exit_code == 1
    assert nothing.stderr.startswith("onejob: nothing is known of nonsense. ")
