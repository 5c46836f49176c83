"""The table of ``onejob why``, and who had the run of ``runs --key``, over real stores."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cli.conftest import Shop
from cli.test_look import NOW, define, join, made
from cli.test_why import HOUR, KEY, fire
from onejob import App
from onejob.cli.tick_table import Asked, read_claims, read_schedule
from onejob.commands import claims, replicas, schedules, views
from onejob.commands.claims import Won
from onejob.commands.command import Command
from onejob.commands.replicas import NewReplica
from onejob.core.run import ReplicaId

T = TypeVar("T")

#: Fires each second, and every process of it tries to.
CLOCK = """
from onejob import App, Run
import os

app = App(schema=os.environ.get("ONEJOB_SCHEMA", "onejob"), lease="3s", poll="100ms")

@app.every("1s")
def beat(run: Run) -> None:
    pass
"""


class Counting:
    """A store that keeps the names of what it was asked."""

    def __init__(self, shop: Shop) -> None:
        self._store, self.asked = shop.app.store, list[str]()

    def run(self, command: Command[T]) -> T:
        self.asked.append(command.name)
        answer: T = self._store.run(command)  # type: ignore[assignment]
        return answer


def lost(shop: Shop, id: str, pid: int) -> None:
    """Let another replica find the first fire time gone."""
    loser = NewReplica(ReplicaId(id), "shop", "host-2", pid, "", ["nightly"], {}, HOUR)
    assert shop.app.store.run(replicas.join(loser))
    tick = schedules.LostTick("nightly", NOW, "nightly", KEY)
    assert shop.app.store.run(schedules.lost([tick], replica=id)) == 1


def test_why_shows_a_row_for_each_fire_time_that_was_expected(shop: Shop) -> None:
    """A06: one winner and two losers, by host and pid; and what nobody has ticked since."""
    define(shop)
    join(shop)
    assert fire(shop, NOW) == "fired"
    lost(shop, "r2", 4712)
    lost(shop, "r3", 4713)

    found = shop.json("why", "nightly", "--ticks", "1000")
    text = shop.invoke("why", "nightly", "--ticks", "1000").stdout.splitlines()

    first, following = found["ticks"][-1], found["ticks"][-2]
    assert (found["key"], first["key"], first["run"]) == (KEY, KEY, found["run"])
    assert (first["fire_time"], first["outcome"]) == ("2026-03-29T01:00:00Z", "scheduled")
    assert first["claimed_by"] == "host-1:4711"
    assert first["lost_by"] == ["host-2:4712", "host-2:4713"]
    assert (following["fire_time"], following["outcome"]) == ("2026-03-29T02:00:00Z", "orphaned")
    assert following["note"] == "no live replica declares it"
    [heading] = [line for line in text if line.startswith("FIRE TIME")]
    assert heading.split("  ")[0] == "FIRE TIME"
    assert [
        word for word in ("OUTCOME", "CLAIMED BY", "LOST BY", "TOOK") if word not in heading
    ] == []
    assert "host-1:4711  host-2:4712, host-2:4713" in text[-1]


def test_why_shows_five_rows_unless_asked_for_more(shop: Shop) -> None:
    define(shop)
    join(shop)
    fire(shop, NOW)

    assert len(shop.json("why", "nightly")["ticks"]) == 5
    assert len(shop.json("why", "nightly", "--ticks", "7")["ticks"]) == 7
    since = shop.json("why", "nightly", "--since", "2026-04-01T00:00:00Z")["ticks"]
    assert since[-1]["fire_time"] == "2026-04-01T00:00:00Z"
    assert len(since) > 200
    assert shop.json("why", "nightly", "2026-03-29T01:00:00Z")["ticks"] == []


def test_why_of_a_schedule_that_never_fired_shows_what_it_should_have(shop: Shop) -> None:
    """P7: orphaned from the beginning."""
    define(shop)

    found = shop.json("why", "nightly")

    assert found["answer"].startswith("nightly has never fired: it is orphaned")
    assert (found["run"], found["events"]) == (None, [])
    assert found["key"] == found["ticks"][0]["key"]
    assert {tick["outcome"] for tick in found["ticks"]} == {"orphaned"}


@pytest.mark.parametrize("most", [1, 1_000])
def test_a_table_costs_three_queries_however_long_it_is(shop: Shop, most: int) -> None:
    define(shop)
    join(shop)
    fire(shop, NOW)
    [schedule] = shop.app.store.run(views.schedules(name="nightly"))
    store: Any = Counting(shop)

    assert read_schedule(store, schedule, Asked(most))

    assert store.asked == ["view_ticks", "view_tick_events", "view_replicas"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--since", "yesterday"), "--since='yesterday' is not an instant"),
        (("--since", "2026-03-29T01:00:00"), "names no time zone"),
        (("--ticks", "0"), "0 is not in the range"),
        (("--ticks", "1001"), "1001 is not in the range"),
    ],
)
def test_options_that_cannot_be_right_are_refused(
    sqlite_shop: Shop, options: tuple[str, str], says: str
) -> None:
    result = sqlite_shop.invoke("why", "nightly", *options)

    assert result.exit_code == 2
    assert says in result.stderr


def test_asking_a_job_of_no_schedule_for_its_fire_times_says_so(sqlite_shop: Shop) -> None:
    made(sqlite_shop, "img-1")

    result = sqlite_shop.invoke("why", "resize", "--ticks", "3")

    assert result.exit_code == 0
    assert "it is no schedule, or none has come" in result.stderr


def test_why_shows_what_became_of_each_guarded_tick(shop: Shop) -> None:
    """A06: from the ledger's claims; one that died over it is unknown, and in its own row."""
    days = ("2026-03-29", "2026-03-30")
    keys = [f"celery:digest@{day}T01:00:00Z" for day in days]
    for key, at in zip(keys, (NOW, NOW + 24 * HOUR), strict=True):
        won = shop.app.store.run(take(key, "host-1:4711/aa", at))
        assert isinstance(won, Won)
        shop.app.store.run(take(key, "host-2:4712/bb", at + 1))
        shop.app.store.run(claims.mark(won.claim, lease=HOUR, now=at + 2))
        if key == keys[0]:
            shop.app.store.run(claims.end(won.claim, keep=HOUR, now=at + 1_000_000))
    store: Any = Counting(shop)

    found = shop.json("why", "celery:digest", "--ticks", "10")
    assert read_claims(store, "celery:digest", Asked(10))

    assert [(t["fire_time"][:10], t["outcome"], t["claimed_by"]) for t in found["ticks"]] == [
        (days[1], "unknown", "host-1:4711"),
        (days[0], "fired", "host-1:4711"),
    ]
    assert [tick["lost_by"] for tick in found["ticks"]] == [["host-2:4712"]] * 2
    assert found["ticks"][1]["ended"] == "2026-03-29T01:00:01Z"
    assert store.asked == ["claim_listed", "claim_listed", "view_events"]


def take(key: str, owner: str, at: int) -> Command[claims.Taken]:
    return claims.take(
        claims.TICK, "celery:digest", key, owner=owner, lease=HOUR, keep=HOUR, now=at
    )


def test_runs_of_one_key_say_who_claimed_who_lost_and_where_it_ran(shop: Shop) -> None:
    """A06"""
    define(shop)
    join(shop)
    assert fire(shop, NOW) == "fired"
    lost(shop, "r2", 4712)
    made(shop, "img-1")

    [fired] = shop.json("runs", "--key", KEY)
    [asked_for] = shop.json("runs", "--key", "img-1")
    text = shop.invoke("runs", "--key", KEY).stdout

    assert (fired["claimed_by"], fired["lost_by"]) == ("host-1:4711", ["host-2:4712"])
    assert (asked_for["claimed_by"], asked_for["lost_by"], asked_for["ran_on"]) == (None, [], None)
    assert "CLAIMED BY   LOST BY      RAN ON" in text
    assert "host-1:4711  host-2:4712" in text
    assert "claimed_by" not in shop.json("runs")[0]


@pytest.mark.slow
def test_of_schedulers_in_two_processes_one_claims_and_the_other_is_named_as_the_loser(
    shop: Shop,
) -> None:
    """A06: real processes, by their pids."""
    (shop.directory / "shop.py").write_text(CLOCK)
    workers = [shop.start("worker", "shop:app") for _ in range(2)]
    pids = {worker.pid for worker in workers}
    try:
        tick = fought_over(shop)
    finally:
        for worker in workers:
            stop(worker)
    [run] = shop.json("runs", "--key", tick["key"])
    text = " ".join(shop.invoke("why", "beat", "--ticks", "50").stdout.split())

    [loser] = tick["lost_by"]
    assert {pid_of(tick["claimed_by"]), pid_of(loser)} == pids
    assert pid_of(run["ran_on"]) in pids
    assert (run["claimed_by"], run["lost_by"]) == (tick["claimed_by"], [loser])
    assert f"{tick['claimed_by']} {loser}" in text


def fought_over(shop: Shop) -> dict[str, Any]:
    """Wait for a fire time that both processes went to fire, and that has ended."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        result = shop.invoke("why", "beat", "--ticks", "50", "--json")
        ticks = json.loads(result.stdout)["ticks"] if result.exit_code == 0 else []
        for tick in ticks:
            if tick["lost_by"] and tick["outcome"] == "succeeded":
                found: dict[str, Any] = tick
                return found
        time.sleep(0.2)
    raise AssertionError("no fire time was fought over in 20 s")


def pid_of(place: str) -> int:
    return int(place.rpartition(":")[2])


def stop(worker: subprocess.Popen[str]) -> None:
    worker.terminate()
    try:
        worker.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.communicate()


@pytest.mark.parametrize("server", ["redis", "mariadb"])
def test_where_only_claims_are_kept_they_have_rows_too(
    request: pytest.FixtureRequest, tmp_path: Path, server: str
) -> None:
    url, schema = (request.getfixturevalue(f"{server}_{what}") for what in ("url", "schema"))
    with closing(App(url, schema=schema)) as app:
        app.store.init()
        shop = Shop(app, url, schema, tmp_path)
        for owner in ("host-1:4711/aa", "host-2:4712/bb"):
            app.store.run(
                claims.take(claims.PERIOD, "mail", "2026-11-29", owner=owner, lease=HOUR, keep=HOUR)
            )

        [tick] = shop.json("why", "mail")["ticks"]

    assert (tick["key"], tick["outcome"], tick["fire_time"]) == ("2026-11-29", "claimed", None)
    assert (tick["claimed_by"], tick["lost_by"]) == ("host-1:4711", ["host-2:4712"])
