"""init, db, jobs, replicas, schedules and runs, each over a real store."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from cli.conftest import Shop
from onejob.commands import replicas, runs, schedules, views
from onejob.commands.replicas import NewReplica
from onejob.commands.runs import NewRun
from onejob.commands.schedules import NewSchedule
from onejob.core.run import Claim, ClaimedRun, End, Outcome, Park, ReplicaId, Settlement
from onejob.core.watermark import full_probes

REPLICA = ReplicaId("r1")
NOW = 1_774_746_000_000_000  # 2026-03-29T01:00:00Z
LEASE = 12_000_000


def join(shop: Shop, *, schedules: dict[str, str] | None = None) -> None:
    replica = NewReplica(REPLICA, "shop", "host-1", 4711, "1.2", ["resize"], schedules or {}, LEASE)
    assert shop.app.store.run(replicas.join(replica))


def made(shop: Shop, *keys: str) -> list[int]:
    """Enqueue one run of resize for each key; return their ids."""
    new = [NewRun("resize", key, '{"image_id": 7}', keyed=True) for key in keys]
    return [int(one.id) for one in shop.app.store.run(runs.enqueue(new))]


def claimed(shop: Shop) -> list[ClaimedRun]:
    command = runs.claim(full_probes(["default"]), jobs=["resize"], replica=REPLICA, limit=10)
    return list(shop.app.store.run(command))


def settle(shop: Shop, claim: Claim, settlement: Settlement) -> None:
    assert shop.app.store.run(runs.settle([(claim, settlement)], keep=LEASE * 1_000))


def define(shop: Shop, *, definition: str = "d1", next_fire: int = NOW) -> None:
    schedule = NewSchedule(
        "nightly",
        "nightly",
        '{"cron":"0 2 * * *","tz":"Europe/Berlin"}',
        "{}",
        definition,
        "",
        "[]",
        next_fire,
    )
    assert shop.app.store.run(schedules.define(schedule, revision=0))


def test_init_says_what_it_applied_and_does_nothing_twice(empty: Shop) -> None:
    first, again = empty.json("init"), empty.json("init")

    assert (first["from"], first["applied"][0], first["applied"][-1]) == (None, 1, first["to"])
    assert again == {"from": first["to"], "to": first["to"], "applied": []}


def test_init_prints_the_schema_without_touching_the_store(empty: Shop) -> None:
    result = empty.invoke("init", "--sql")

    assert result.exit_code == 0
    assert "CREATE TABLE" in result.stdout
    assert empty.invoke("runs").exit_code == 3


def test_the_printed_schema_makes_a_store_that_can_be_used(sqlite_url: str) -> None:
    from click.testing import CliRunner

    from onejob.cli.root import root

    script = CliRunner().invoke(root, ["init", "--sql", "--url", sqlite_url]).stdout
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        connection.executescript(script)

    assert CliRunner().invoke(root, ["runs", "--url", sqlite_url]).exit_code == 0


def test_a_newer_schema_is_refused_with_what_to_do(shop: Shop) -> None:
    store = shop.app.store
    with store.transaction(longest=5_000_000) as connection:  # type: ignore[arg-type]
        table = f"{store.catalogue.prefix}migration"  # type: ignore[attr-defined]
        connection.execute(f"INSERT INTO {table} (version) VALUES (999)")

    result = shop.invoke("runs")

    assert result.exit_code == 3
    assert "Upgrade onejob here" in result.stderr


def test_db_show_prints_the_text_of_each_store(shop: Shop) -> None:
    postgresql = shop.invoke("db", "show", "run_fence", "--store", "postgresql")
    sqlite = shop.invoke("db", "show", "run_fence", "--store", "sqlite")

    assert "FOR NO KEY UPDATE" in postgresql.stdout
    assert "FOR NO KEY UPDATE" not in sqlite.stdout
    assert "run_fence" in shop.json("db", "show")


def test_db_show_of_an_unknown_command_names_the_known_ones() -> None:
    from click.testing import CliRunner

    from onejob.cli.root import root

    result = CliRunner().invoke(root, ["db", "show", "nonsense"])

    assert result.exit_code == 2
    assert "run_fence" in result.stderr


@pytest.mark.parametrize("command", ["runs", "jobs", "replicas", "schedules", "effects"])
def test_an_empty_list_says_what_to_do_next(shop: Shop, command: str) -> None:
    result = shop.invoke(command)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.strip()
    assert shop.json(command) == []


def test_runs_are_listed_newest_first_and_filtered(shop: Shop) -> None:
    join(shop)
    first, second = made(shop, "img-1", "img-2")
    [one, _] = claimed(shop)
    settle(shop, one.claim, End(Outcome.SUCCEEDED, result="14"))

    everything = shop.json("runs")
    [ended] = shop.json("runs", "--state", "succeeded", "--job", "resize", "--key", "img-1")

    assert [run["id"] for run in everything] == [second, first]
    assert (ended["state"], ended["outcome"], ended["result"]) == ("ended", "succeeded", 14)
    assert ended["ended"].endswith("Z")
    assert shop.json("runs", "--limit", "1") == everything[:1]
    assert shop.json("runs", "--schedule", "nightly") == []


def test_runs_are_filtered_by_queue_and_by_time(shop: Shop) -> None:
    [run] = made(shop, "img-1")

    assert [one["id"] for one in shop.json("runs", "--queue", "default")] == [run]
    assert shop.json("runs", "--queue", "slow") == []
    assert [one["id"] for one in shop.json("runs", "--since", "1h")] == [run]
    assert [one["id"] for one in shop.json("runs", "--since", "2026-03-29T01:00:00Z")] == [run]
    assert shop.json("runs", "--since", "2999-01-01T00:00:00Z") == []
    refused = shop.invoke("runs", "--since", "yesterday")
    assert refused.exit_code == 2
    assert "2026-03-29T01:00:00Z" in refused.stderr


def test_queues_show_what_waits_and_since_when(shop: Shop) -> None:
    """F19: the age of the oldest run that is due."""
    join(shop)
    made(shop, "img-1", "img-2")
    command = runs.claim(full_probes(["default"]), jobs=["resize"], replica=REPLICA, limit=1)
    shop.app.store.run(command)

    [queue] = shop.json("queues")
    table = shop.invoke("queues").stdout

    assert (queue["queue"], queue["due"], queue["running"]) == ("default", 1, 1)
    assert queue["oldest_due_seconds"] >= 0
    assert "OLDEST DUE" in table
    assert "default" in table


def test_an_ended_run_is_discarded_and_one_that_lives_is_not(shop: Shop) -> None:
    join(shop)
    [ended] = made(shop, "img-1")
    settle(shop, claimed(shop)[0].claim, End(Outcome.FAILED, error="ValueError: no"))
    [lives] = made(shop, "img-2")

    result = shop.invoke("runs", "discard", str(ended), str(lives))

    assert result.exit_code == 1
    assert f"run {ended} (resize): discarded" in result.stdout
    assert f"run {lives} (resize, scheduled): nothing done, it lives" in result.stderr
    assert [run["id"] for run in shop.json("runs")] == [lives]
    assert made(shop, "img-1") != [], "its key is free"


def test_a_stored_escape_sequence_is_not_shown(shop: Shop) -> None:
    made(shop, "img-\x1b[2J\u202e")

    result = shop.invoke("runs")

    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
    assert "img-[2J" in result.stdout


def test_an_ended_run_is_retried_and_a_scheduled_one_is_not(shop: Shop) -> None:
    join(shop)
    ended, scheduled = made(shop, "img-1", "img-2")
    settle(shop, claimed(shop)[0].claim, End(Outcome.FAILED, error="ValueError: no"))

    result = shop.invoke("runs", "retry", str(ended), str(scheduled), "12345")

    assert result.exit_code == 1
    assert f"run {ended} (resize): scheduled again" in result.stdout
    assert f"run {scheduled} (resize, running): nothing done" in result.stderr
    assert "run 12345: unknown here" in result.stderr


def test_scheduled_and_running_runs_are_cancelled_and_ended_ones_are_not(shop: Shop) -> None:
    """B06"""
    join(shop)
    [running] = made(shop, "img-1")
    [claim] = claimed(shop)
    [scheduled] = made(shop, "img-2")

    result = shop.invoke("runs", "cancel", str(running), str(scheduled), "--json")
    again = shop.invoke("runs", "cancel", str(running))

    assert result.exit_code == 0
    assert [run["outcome"] for run in json.loads(result.stdout)] == ["cancelled", "cancelled"]
    late = [(claim.claim, End(Outcome.SUCCEEDED))]
    assert shop.app.store.run(runs.settle(late, keep=LEASE)) == ()
    assert again.exit_code == 1
    assert f"run {running} (resize, cancelled): nothing done, it has ended" in again.stderr


def test_replicas_show_who_is_live_and_who_is_late(shop: Shop) -> None:
    """A06, A18: every process of the fleet is visible, with host, pid and version."""
    join(shop)

    [live] = shop.json("replicas")
    shop.app.store.run(replicas.renew(REPLICA, lease=LEASE, now=NOW))
    [late] = shop.json("replicas")
    table = shop.invoke("replicas").stdout

    assert (live["state"], live["host"], live["pid"], live["version"]) == (
        "live", "host-1", 4711, "1.2",
    )  # fmt: skip
    assert late["state"] == "late"
    assert "over for" in table


def test_a_replica_that_stopped_by_itself_is_not_called_dead(shop: Shop) -> None:
    join(shop)
    shop.app.store.run(replicas.leave(REPLICA))
    [left] = shop.json("replicas")

    assert left["state"] == "left"


def test_a_replica_whose_lease_lapsed_is_called_dead(shop: Shop) -> None:
    join(shop)
    shop.app.store.run(replicas.renew(REPLICA, lease=LEASE, now=NOW))
    assert shop.app.store.run(replicas.judge()) == (REPLICA,)
    [dead] = shop.json("replicas")

    assert dead["state"] == "dead"


def test_a_state_that_there_is_not_is_refused_with_those_there_are(shop: Shop) -> None:
    result = shop.invoke("runs", "--state", "done")

    assert result.exit_code == 2
    assert "no state 'done'" in result.stderr
    for name in ("scheduled", "parked", "unknown", "succeeded", "timed out", "interrupted"):
        assert name in result.stderr
        assert shop.invoke("runs", "--state", name).exit_code == 0


def test_jobs_count_their_runs_by_state(shop: Shop) -> None:
    join(shop)
    made(shop, "img-1", "img-2", "img-3")
    [first, second, _] = claimed(shop)
    settle(shop, first.claim, End(Outcome.SUCCEEDED))
    settle(shop, second.claim, Park())

    [job] = shop.json("jobs")

    assert (job["job"], job["running"], job["parked"]) == ("resize", 1, 1)
    assert job["last_outcome"] == "succeeded"
    assert "no live replica knows" in shop.invoke("jobs").stderr


def test_a_schedule_is_shown_paused_and_resumed(shop: Shop) -> None:
    define(shop)
    join(shop, schedules={"nightly": "d1"})

    [listed] = shop.json("schedules")
    paused = shop.json("schedules", "pause", "nightly")
    table = shop.invoke("schedules").stdout
    resumed = shop.json("schedules", "resume", "nightly")

    assert (listed["state"], listed["next_fire"]) == ("live", "2026-03-29T01:00:00Z")
    assert (paused["state"], resumed["state"]) == ("paused", "live")
    assert "0 2 * * * Europe/Berlin" in table


def test_pausing_an_unknown_schedule_is_a_usage_error(shop: Shop) -> None:
    result = shop.invoke("schedules", "pause", "nonsense")

    assert result.exit_code == 2
    assert "onejob schedules" in result.stderr


def test_the_runs_of_a_job_in_json_carry_every_public_field(shop: Shop) -> None:
    made(shop, "img-1")

    [run] = shop.json("runs")

    assert {
        "id", "job", "key", "state", "outcome", "attempt", "deaths", "token", "replica", "due",
        "started", "ended", "error", "result", "progress",
    } <= set(run)  # fmt: skip
    assert shop.app.store.run(views.run_get(run["id"])) is not None
