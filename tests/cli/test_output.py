"""Tables on a terminal that is narrow: what people copy stays in one piece."""

from __future__ import annotations

import pytest

from cli.conftest import Shop
from cli.test_look import NOW, define, join, made
from onejob.cli.output import fitted

TERMINAL = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}


def test_what_fits_is_left_as_it_is() -> None:
    assert fitted(("ID", "AT"), [("7", "noon")], 8, spare=("AT",), prose=()) == ((), 8)


def test_spare_columns_go_one_by_one_until_the_others_fit() -> None:
    columns, rows = ("ID", "AT", "BY"), [("x" * 10, "y" * 10, "z" * 10)]

    assert fitted(columns, rows, 33, spare=("BY", "AT"), prose=()) == (("BY",), 22)
    assert fitted(columns, rows, 12, spare=("BY", "AT"), prose=()) == (("BY", "AT"), 10)


def test_what_still_does_not_fit_is_wider_than_the_terminal() -> None:
    assert fitted(("ID",), [("x" * 50,)], 20, spare=(), prose=()) == ((), 50)


def test_sentences_are_wrapped_before_a_column_is_left_out() -> None:
    columns, rows = ("ID", "NOTE"), [("7", "word " * 20)]

    assert fitted(columns, rows, 20, spare=("ID",), prose=("NOTE",)) == ((), 20)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_no_id_key_zone_or_instant_is_broken_at_eighty_columns(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    define(shop, next_fire=4 * NOW)
    join(shop)
    key = "nightly-newsletter@2026-03-29T01:00:00Z"
    made(shop, key)
    for name, value in TERMINAL.items():
        monkeypatch.setenv(name, value)
    [schedule] = shop.json("schedules")
    [replica] = shop.json("replicas")

    schedules, runs, replicas = (
        shop.invoke(command, TZ=zone) for command in ("schedules", "runs", "replicas")
    )

    assert schedule["next_fire"][:10] in schedules.stdout
    assert schedule["timing"]["tz"] in schedules.stdout
    assert len(schedules.stdout.splitlines()) == 2
    assert key in runs.stdout
    assert len(runs.stdout.splitlines()) == 2
    assert replica["id"] in replicas.stdout
    assert len(replicas.stdout.splitlines()) == 2
    assert "Left out at this width: " in runs.stderr
    assert all(len(line) <= 80 for line in runs.stdout.splitlines())


def test_without_a_terminal_every_column_is_there(shop: Shop) -> None:
    join(shop)

    result = shop.invoke("replicas", COLUMNS="20")

    assert "VERSION" in result.stdout
    assert result.stderr == ""
