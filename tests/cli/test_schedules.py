"""``onejob schedules``: what people see and do, over real stores."""

from __future__ import annotations

from typing import Any

from cli.conftest import Shop
from cli.test_look import LEASE, NOW, define, join
from onejob.commands import overlap, replicas, runs, schedules
from onejob.commands.replicas import NewReplica
from onejob.commands.schedules import PutSchedule
from onejob.core.run import ReplicaId

HOUR = 3_600_000_000


def put(shop: Shop, *names: str, **changes: Any) -> None:
    """Put schedules of job resize that are due in an hour."""
    far = shop.app.store.run(schedules.read([])).now + HOUR
    batch = [
        PutSchedule(
            **{
                "name": name,
                "job": "resize",
                "timing": '{"every":3600000000,"anchor":0}',
                "policy": "{}",
                "definition": "p",
                "next_fire": far,
                "args": '{"image_id":7}',
                "queue": "slow",
                "priority": 3,
                "on_loss": "retry",
                "revision": 0,
                **changes,
            }
        )
        for name in names
    ]
    assert len(shop.app.store.run(schedules.put(batch))) == len(names)


def states(shop: Shop, *arguments: str) -> dict[str, str]:
    return {one["name"]: one["state"] for one in shop.json("schedules", *arguments)}


def test_schedules_show_who_is_live_paused_broken_orphaned_and_late(shop: Shop) -> None:
    store = shop.app.store
    put(shop, "live", "paused", "broken", "late")
    put(shop, "orphan", job="gone")
    define(shop, next_fire=NOW)
    new = NewReplica(ReplicaId("x"), "shop", "h", 1, "", ["resize"], {}, LEASE, ["resize"])
    assert store.run(replicas.join(new))
    assert store.run(schedules.pause("paused"))
    assert store.run(schedules.mark_broken("broken", revision=1, why="no such zone"))
    [late] = store.run(schedules.read(["late"])).schedules
    fire = schedules.Fire("late@1", NOW, "resize", "{}", "slow", 0, "retry", expect=1)
    store.run(schedules.tick([schedules.Step("late", late.revision, NOW, NOW + HOUR, (fire,))],
                             replica="x"))  # fmt: skip
    assert len(store.run(overlap.late(limit=10))) == 1

    listed = {one["name"]: one for one in shop.json("schedules")}
    table = shop.invoke("schedules").stdout

    assert {name: one["state"] for name, one in listed.items()} == {
        "broken": "broken",
        "late": "late",
        "live": "live",
        "nightly": "orphaned",
        "orphan": "orphaned",
        "paused": "paused",
    }
    assert (listed["live"]["dynamic"], listed["nightly"]["dynamic"]) == (True, False)
    assert (listed["live"]["declared"], listed["orphan"]["orphaned"]) == (1, True)
    assert listed["live"]["args"] == {"image_id": 7}
    assert listed["nightly"]["lateness"] > 0
    assert "LATENESS" in table
    assert "every 1 h" in table or "every 1h" in table


def test_schedules_are_found_by_their_beginning_and_by_their_job(shop: Shop) -> None:
    put(shop, "tenant-1", "tenant-2", "other")
    put(shop, "tenant-3", job="gone")

    assert set(states(shop, "--prefix", "tenant-")) == {"tenant-1", "tenant-2", "tenant-3"}
    assert set(states(shop, "--prefix", "tenant-", "--job", "gone")) == {"tenant-3"}


def test_what_passed_while_paused_is_counted_when_it_is_resumed(shop: Shop) -> None:
    put(shop, "poll", next_fire=NOW)

    paused = shop.invoke("schedules", "pause", "poll")
    resumed = shop.json("schedules", "resume", "poll")

    assert "are missed, and counted" in paused.stdout
    assert resumed["state"] == "orphaned"
    assert resumed["missed"] > 0
    assert resumed["lateness"] == 0


def test_a_schedule_is_triggered_with_its_own_arguments(shop: Shop) -> None:
    put(shop, "weekly")

    made = shop.json("schedules", "trigger", "weekly", "--key", "now")
    again = shop.json("schedules", "trigger", "weekly", "--key", "now")
    run = shop.app.runs.get(made["id"])

    assert (made["created"], again["created"], again["id"]) == (True, False, made["id"])
    assert run is not None
    assert (run.job, run.key, run.queue) == ("resize", "now", "slow")
    assert "scheduled" in shop.invoke("schedules", "trigger", "weekly").stdout


def test_a_schedule_is_deleted_unless_live_code_declares_it(shop: Shop) -> None:
    """A16"""
    put(shop, "weekly")
    define(shop)
    join(shop, schedules={"nightly": "d1"})

    assert shop.json("schedules", "delete", "weekly") == {"name": "weekly", "deleted": True}
    refused = shop.invoke("schedules", "delete", "nightly")
    unknown = [shop.invoke("schedules", act, "weekly") for act in ("delete", "trigger", "resume")]

    assert (refused.exit_code, [one.exit_code for one in unknown]) == (2, [2, 2, 2])
    assert "declared by code that is live" in refused.stderr
    assert all("See: onejob schedules" in one.stderr for one in unknown)


def test_doctor_names_runs_that_should_have_ended(shop: Shop) -> None:
    store = shop.app.store
    store.run(runs.enqueue([runs.NewRun("resize", "k", "{}", expect=1)]))
    [late] = store.run(overlap.late(limit=10))

    result = shop.invoke("doctor", "--json")

    assert result.exit_code == 1
    assert f"run {late.id} of resize" in result.stdout
