"""``onejob why`` and ``onejob doctor`` over a store in which things happened."""

from __future__ import annotations

import json

from cli.conftest import Shop
from cli.test_look import NOW, REPLICA, claimed, define, join, made, settle
from onejob.commands import overlap as overlaps
from onejob.commands import replicas, runs, schedules
from onejob.commands.replicas import NewReplica
from onejob.commands.schedules import Fire, OverlapRule, Step
from onejob.core.run import Again, End, Outcome, ReplicaId

KEY = "nightly@2026-03-29T01:00:00Z"
HOUR = 3_600_000_000


def fire(shop: Shop, at: int, *, overlap: OverlapRule = "allow", missed: str = "") -> str:
    """Let one fire time become what it becomes; return what."""
    store = shop.app.store
    [schedule] = store.run(schedules.read(["nightly"])).schedules
    key = f"nightly@2026-03-29T{1 + (at - NOW) // HOUR:02d}:00:00Z"
    step = Step(
        "nightly", schedule.revision, at, at + HOUR,
        (Fire(key, at, "nightly", "{}", "default", 0, "retry"),), missed, int(bool(missed)),
        overlap,
    )  # fmt: skip
    [ticked] = store.run(schedules.tick([step], replica=REPLICA))
    return ticked.answer


def test_why_tells_the_latest_run_of_a_job(shop: Shop) -> None:
    join(shop)
    [run] = made(shop, "img-1")
    settle(shop, claimed(shop)[0].claim, Again(0, Outcome.FAILED, "ValueError: too big"))
    settle(shop, claimed(shop)[0].claim, End(Outcome.SUCCEEDED))

    found = shop.json("why", "resize")
    text = shop.invoke("why", "resize", str(run)).stdout

    assert (found["job"], found["run"], found["key"]) == ("resize", run, "img-1")
    assert f"run {run} (key img-1)" in text
    assert "succeeded after 2 attempts" in found["answer"]
    assert [e["kind"] for e in found["events"]] == [
        "run.expected", "attempt.failed", "run.succeeded",
    ]  # fmt: skip
    assert "ValueError: too big. Scheduled again at once." in text
    assert "host-1, pid 4711" in text
    assert shop.json("why", "resize", "img-1") == found


def test_why_finds_a_fire_time_by_its_instant(shop: Shop) -> None:
    define(shop)
    join(shop)
    assert fire(shop, NOW) == "fired"

    found = shop.json("why", "nightly", "2026-03-29T03:00:00+02:00")

    assert (found["key"], found["expected"]) == (KEY, "2026-03-29T01:00:00Z")


def test_why_tells_the_newest_fire_time_even_where_it_was_skipped(shop: Shop) -> None:
    define(shop)
    join(shop)
    fire(shop, NOW)
    assert fire(shop, NOW + HOUR, overlap="skip") == "skipped"

    latest = shop.json("why", "nightly")
    by_instant = shop.json("why", "nightly", "2026-03-29T02:00:00Z")

    assert "was skipped: run" in latest["answer"]
    assert by_instant == {**latest, "ticks": []}


def test_why_tells_of_a_missed_fire_time(shop: Shop) -> None:
    define(shop)
    join(shop)
    newest = [{"at": "2026-03-29T01:00:00Z", "reason": "catch_up"}]
    fire(shop, NOW + HOUR, missed=json.dumps({"count": 1, "newest": newest}))

    found = shop.json("why", "nightly", "2026-03-29T01:00:00Z")

    assert "was missed" in found["answer"]
    assert shop.json("schedules")[0]["missed"] == 1


def test_why_of_nothing_known_says_what_there_is(shop: Shop) -> None:
    define(shop, next_fire=4 * NOW)
    join(shop)
    [run] = made(shop, "img-1")

    nothing = shop.invoke("why", "nonsense")
    not_yet = shop.invoke("why", "nightly")
    other = shop.invoke("why", "nightly", str(run))
    naive = shop.invoke("why", "nightly", "2026-03-29T01:00:00")
    no_run = shop.invoke("why", "nightly", "987654321")
    no_key = shop.invoke("why", "nightly", "img-9")
    to_come = shop.invoke("why", "nightly", "2199-01-01T00:00:00Z")

    assert (nothing.exit_code, not_yet.exit_code, to_come.exit_code) == (1, 1, 1)
    assert (other.exit_code, naive.exit_code) == (2, 2)
    assert (no_run.exit_code, no_key.exit_code) == (1, 2)
    assert "no run 987654321" in no_run.stderr
    assert "no key of nightly" in no_key.stderr
    assert "belongs to resize" in other.stderr
    assert "names no time zone" in naive.stderr
    assert "still to come" in to_come.stderr


def test_the_doctor_of_a_healthy_store_finds_nothing(shop: Shop) -> None:
    join(shop)

    checks = {check["name"]: check for check in shop.json("doctor")["checks"]}

    assert all(check["ok"] for check in checks.values())
    assert {"connection", "schema", "clock", "replicas", "schedules", "effects"} <= set(checks)
    assert shop.app.store.where in checks["connection"]["detail"]


def test_the_doctor_exits_1_when_a_check_fails(shop: Shop) -> None:
    define(shop)

    result = shop.invoke("doctor", "--json")

    assert result.exit_code == 1
    failed = [c["name"] for c in json.loads(result.stdout)["checks"] if not c["ok"]]
    assert failed == ["schedules"]


def test_the_doctor_of_a_store_without_tables_says_so(empty: Shop) -> None:
    result = empty.invoke("doctor", "--json")

    assert result.exit_code == 1
    [check] = json.loads(result.stdout)["checks"]
    assert (check["name"], check["ok"]) == ("schema", False)
    assert "onejob init" in check["detail"]


def test_why_names_who_went_to_fire_it_and_lost(shop: Shop) -> None:
    """A06: who ran, and who lost, each by host and pid."""
    define(shop)
    join(shop)
    assert fire(shop, NOW) == "fired"
    loser = NewReplica(ReplicaId("r2"), "shop", "host-2", 4712, "", ["nightly"], {}, HOUR)
    assert shop.app.store.run(replicas.join(loser))
    lost = [schedules.LostTick("nightly", NOW, "nightly", KEY)]
    assert shop.app.store.run(schedules.lost(lost, replica="r2")) == 1

    text = shop.invoke("why", "nightly").stdout

    assert "Replica r2 (host-2, pid 4712) went to fire it and lost: Replica r1 (host-1" in text


def test_why_tells_what_waits_what_was_cancelled_for_it_and_what_is_late(shop: Shop) -> None:
    define(shop)
    join(shop)
    fire(shop, NOW)
    assert fire(shop, NOW + HOUR, overlap="cancel") == "queued"
    waiting = shop.invoke("why", "nightly").stdout
    [older] = shop.app.store.run(overlaps.asked(limit=10))
    shop.app.store.run(overlaps.cancel([older], keep=HOUR))
    cancelled = shop.invoke("why", "nightly", str(older)).stdout
    [late] = shop.app.store.run(
        runs.enqueue([runs.NewRun("nightly", "late", "{}", keyed=True, expect=1)])
    )
    shop.app.store.run(overlaps.late(limit=10))
    told = shop.invoke("why", "nightly", str(late.id)).stdout

    assert f"Queued: run {older} was in its way" in waiting
    assert "Waits until the run in its way has ended." in waiting
    assert 'Cancelled while it was scheduled: a newer fire time had come (overlap="cancel").' in (
        cancelled
    )
    assert "Late: it should have ended" in told


def test_why_says_what_holds_a_schedule_up(shop: Shop) -> None:
    """P7: orphaned, paused, broken: nothing has happened at that time, and this is why."""
    define(shop, next_fire=NOW)

    orphaned = shop.json("why", "nightly", "2026-03-29T01:00:00Z")
    shop.app.store.run(schedules.pause("nightly"))
    paused = shop.json("why", "nightly", "2026-03-29T01:00:00Z")

    why = "has not fired: it is orphaned: no live replica declares it."
    assert orphaned["answer"].endswith(why)
    assert paused["answer"].endswith("has not fired: it is paused.")


def test_why_tells_of_what_passed_while_a_schedule_was_paused(shop: Shop) -> None:
    define(shop, next_fire=NOW)
    assert shop.invoke("schedules", "pause", "nightly").exit_code == 0
    assert shop.invoke("schedules", "resume", "nightly").exit_code == 0

    found = shop.json("why", "nightly")

    assert found["answer"].endswith("was missed: its schedule was paused then.")
