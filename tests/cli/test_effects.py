"""Effects that nobody can tell the outcome of."""

from __future__ import annotations

import json

import pytest

from cli.conftest import Shop
from cli.test_look import claimed, join, made, settle
from onejob.commands import ledger
from onejob.core.run import LeaveUnknown
from onejob.errors import EffectUnknown


def leave_unknown(shop: Shop) -> None:
    """Call something that ends without a clear answer."""

    def charge() -> None:
        raise RuntimeError("no answer")

    with pytest.raises(EffectUnknown):
        shop.app.effect("orders", "charge-7", charge)


def test_an_unknown_effect_is_listed_and_found_by_the_doctor(shop: Shop) -> None:
    """P5: kept, visible, and settled by a person."""
    leave_unknown(shop)

    [effect] = shop.json("effects", "unknown")
    doctor = shop.invoke("doctor")

    assert 0 <= effect["age_seconds"] < 60
    assert "1 unknown, the oldest for " in doctor.stdout
    assert (effect["scope"], effect["key"], effect["state"]) == ("orders", "charge-7", "unknown")
    assert doctor.exit_code == 1
    assert "charge-7 in orders" in doctor.stdout


def test_the_doctor_finds_what_a_lost_caller_left_claimed(shop: Shop) -> None:
    """The entry says claimed for ever: nobody is left who could record anything else."""
    join(shop)
    made(shop, "img-7")
    [run] = claimed(shop)
    owner = f"{run.claim.replica}/{run.claim.token}/1"  # the attempt, and its first call
    entry = ledger.NewEntry("resize/img-7", "mail", owner)
    assert shop.app.store.run(ledger.claim_in_run(run.claim, entry))

    calling = checks(shop)
    settle(shop, run.claim, LeaveUnknown("its replica died"))
    lost = checks(shop)

    assert calling["effects"] == (True, "none unknown")
    assert calling["unknown runs"] == (True, "none")
    assert not lost["effects"][0]
    assert "mail in resize/img-7" in lost["effects"][1]
    assert not lost["unknown runs"][0]
    assert "resize (1)" in lost["unknown runs"][1]
    assert shop.invoke("doctor").exit_code == 1


def checks(shop: Shop) -> dict[str, tuple[bool, str]]:
    """Ask the doctor; return each check's verdict and words by its name."""
    found = json.loads(shop.invoke("doctor", "--json").stdout)["checks"]
    return {check["name"]: (check["ok"], check["detail"]) for check in found}


def test_resolving_as_done_records_the_result_for_a_repeat(shop: Shop) -> None:
    leave_unknown(shop)

    settled = shop.json("effects", "resolve", "orders", "charge-7", "done", "--result", '"paid"')

    assert settled["effect"]["state"] == "done"
    assert shop.app.effect("orders", "charge-7", lambda: "not called") == "paid"
    assert shop.json("effects") == []


def test_resolving_as_redo_lets_it_be_called_again(shop: Shop) -> None:
    leave_unknown(shop)

    assert shop.invoke("effects", "resolve", "orders", "charge-7", "redo").exit_code == 0

    assert shop.app.effect("orders", "charge-7", lambda: "called") == "called"


def test_a_settled_effect_is_not_settled_again(shop: Shop) -> None:
    leave_unknown(shop)
    shop.invoke("effects", "resolve", "orders", "charge-7", "done")

    again = shop.invoke("effects", "resolve", "orders", "charge-7", "redo")

    assert again.exit_code == 1
    assert "settled" in again.stderr


def test_bad_answers_change_nothing(shop: Shop) -> None:
    leave_unknown(shop)

    for arguments in (
        ("orders", "charge-7", "maybe"),
        ("orders", "charge-8", "done"),
        ("orders", "charge-7", "done", "--result", "paid"),
    ):
        assert shop.invoke("effects", "resolve", *arguments).exit_code == 2

    assert json.loads(shop.invoke("effects", "--json").stdout)[0]["state"] == "unknown"
