"""``onejob why`` and ``onejob doctor`` over a store in which things happened."""

from __future__ import annotations

import json

from cli.conftest import Shop
from cli.test_look import NOW, REPLICA, claimed, define, join, made, settle
from onejob.commands import schedules
from onejob.commands.schedules import Fire, OverlapRule, Step
from onejob.core.run import Again, End, Outcome

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
    assert by_instant == latest


def test_why_tells_of_a_missed_fire_time(shop: Shop) -> None:
    define(shop)
    join(shop)
    newest = [{"at": "2026-03-29T01:00:00Z", "reason": "catch_up"}]
    fire(shop, NOW + HOUR, missed=json.dumps({"count": 1, "newest": newest}))

    found = shop.json("why", "nightly", "2026-03-29T01:00:00Z")

    assert "was missed" in found["answer"]
    assert shop.json("schedules")[0]["missed"] == 1


def test_why_of_nothing_known_says_what_there_is(shop: Shop) -> None:
    define(shop)
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
