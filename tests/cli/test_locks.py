"""``onejob locks``: who holds what, and taking a lock away."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from cli.conftest import Shop
from onejob import App, LeaseLost
from onejob.cli import locks
from onejob.cli.root import root
from onejob.commands import views


def test_a_taken_lock_is_shown_with_its_holder_and_who_waits(shop: Shop) -> None:
    with shop.app.lock("nightly", protects="ledger") as lease:
        [lock] = shop.json("locks")
        shown = shop.invoke("locks").stdout

    assert (lock["app"], lock["name"], lock["state"]) == (shop.app.name, "nightly", "held")
    assert (lock["token"], lock["waiting"], lock["protects"]) == (lease.token, 0, ["ledger"])
    assert lock["holder"] == shop.app._services().owner
    assert lock["since"] < lock["until"]
    assert "nightly" in shown
    assert "renewed, else" in shown


def test_a_released_lock_is_listed_only_when_asked_for(shop: Shop) -> None:
    with shop.app.lock("nightly"):
        pass

    assert shop.json("locks") == []
    assert [lock["state"] for lock in shop.json("locks", "--all")] == ["free"]
    assert "No locks are taken." in shop.invoke("locks").stderr


def test_a_lock_that_is_kept_for_its_minimum_says_so(shop: Shop) -> None:
    with shop.app.lock("nightly", at_least="1h"):
        pass

    [lock] = shop.json("locks")

    assert lock["state"] == "kept"


def test_a_broken_lock_is_lost_to_its_holder_and_recorded(shop: Shop) -> None:
    with pytest.raises(LeaseLost), shop.app.lock("nightly") as lease:
        broken = shop.json("locks", "break", "nightly", "--reason", "stuck since noon")

    assert (broken["name"], broken["state"]) == ("nightly", "free")
    assert broken["token"] > lease.token
    [event] = shop.app.store.run(views.events(limit=10))
    assert (event.kind, event.key, event.token) == ("lock.broken", "nightly", lease.token)
    assert event.detail.endswith(": stuck since noon")


def test_breaking_says_what_is_wrong_and_breaks_nothing(shop: Shop) -> None:
    unknown = shop.invoke("locks", "break", "nightly", "--reason", "x")
    without = shop.invoke("locks", "break", "nightly")
    with shop.app.lock("nightly"):
        blank = shop.invoke("locks", "break", "nightly", "--reason", " ")

    assert (unknown.exit_code, without.exit_code, blank.exit_code) == (2, 2, 2)
    assert "no lock 'nightly' is taken" in unknown.stderr
    assert "--reason" in without.stderr
    assert "reason is blank" in blank.stderr


def test_a_name_that_two_apps_lock_must_be_said_in_full(shop: Shop) -> None:
    other = App(shop.url, schema=shop.schema, name="bank")
    try:
        with other.lock("nightly", at_least="1h"):
            pass
        with shop.app.lock("nightly"):
            unclear = shop.invoke("locks", "break", "nightly", "--reason", "x")
            clear = shop.invoke("locks", "break", "nightly", "--reason", "x", "--app", "bank")
            left = [lock["app"] for lock in shop.json("locks")]
    finally:
        other.close()

    assert unclear.exit_code == 2
    assert "--app NAME" in unclear.stderr
    assert clear.exit_code == 0
    assert left == [shop.app.name]


def test_who_breaks_a_lock_has_a_name_even_where_the_machine_knows_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container that runs under a number, as OpenShift's do."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", unknown)
    monkeypatch.setattr("os.getuid", lambda: 12345)

    assert locks._user() == "uid 12345"


def test_why_tells_who_broke_a_lock_from_whom_and_for_what_reason(shop: Shop) -> None:
    for reason in ("stuck since noon", "again"):
        with pytest.raises(LeaseLost), shop.app.lock("reindex"):
            assert shop.invoke("locks", "break", "reindex", "--reason", reason).exit_code == 0
    holder = shop.app._services().owner

    found = shop.json("why", "reindex")

    assert found["answer"].endswith(": again. Who has it now: onejob locks")
    assert [event["kind"] for event in found["events"]] == ["lock.broken"] * 2
    assert found["events"][0]["text"].startswith(f"Taken away from {holder} (token ")
    assert found["events"][0]["text"].endswith(": stuck since noon")
    assert "nothing is known" in shop.invoke("why", "reindexing").stderr


@pytest.mark.parametrize("store", ["memory", "redis", "mariadb"])
def test_each_store_tells_the_breaks_of_one_lock_the_latest_first(
    request: pytest.FixtureRequest, store: str
) -> None:
    if store == "memory":
        app = App("memory://")
    else:
        url, schema = (request.getfixturevalue(f"{store}_{what}") for what in ("url", "schema"))
        assert CliRunner().invoke(root, ["init", "--url", url, "--schema", schema]).exit_code == 0
        app = App(url, schema=schema)
    for name, reason in (("reindex", "one"), ("other", "x"), ("reindex", "two")):
        with pytest.raises(LeaseLost), app.lock(name):
            app.locks.break_(name, reason=reason)

    told = app.store.run(views.breaks("reindex"))
    [last] = app.store.run(views.breaks("reindex", limit=1))
    app.close()

    assert [event.detail.rpartition(": ")[2] for event in told] == ["two", "one"]
    assert last == told[0]
