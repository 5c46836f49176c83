"""What a terminal gets to see."""

from __future__ import annotations

import time

import pytest

from onejob.cli.text import CELL_CHARACTERS_MAX, cell, clean, decoded, span, utc, when

AT = 1_774_746_000_000_000  # 2026-03-29T01:00:00Z


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2Jgone", "[2Jgone"),
        ("\x9b31mred", "31mred"),
        ("a\nb\tc\rd", "a b cd"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("zero\u200bwidth\x00", "zerowidth"),
        ("Grüße 東京", "Grüße 東京"),
    ],
)
def test_control_and_direction_characters_never_reach_a_terminal(stored: str, shown: str) -> None:
    assert clean(stored) == shown


def test_a_cell_is_cut_and_says_so() -> None:
    assert cell("x" * 200) == "x" * (CELL_CHARACTERS_MAX - 1) + "…"
    assert cell(None) == ""


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-03-29 01:00:00Z"),
        ("Europe/Berlin", "2026-03-29 03:00:00 (01:00:00Z)"),
        ("America/New_York", "2026-03-28 21:00:00 (2026-03-29 01:00:00Z)"),
    ],
)
def test_an_instant_is_shown_in_local_time_and_utc(
    zone: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert when(AT) == shown
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()


def test_no_instant_is_nothing() -> None:
    assert (when(0), utc(0)) == ("", None)
    assert utc(AT) == "2026-03-29T01:00:00Z"


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0, "0s"),
        (900, "0s"),
        (12_345, "12ms"),
        (340_000, "340ms"),
        (4_234_567, "4.2s"),
        (75_500_000, "1m15s"),
        (11_530_000_000, "3h12m"),
        (-4_234_567, "-4.2s"),
    ],
)
def test_a_span_is_as_precise_as_a_person_wants(microseconds: int, shown: str) -> None:
    assert span(microseconds) == shown


def test_a_stored_value_is_decoded_where_it_is_json() -> None:
    assert decoded('{"a": 1}') == {"a": 1}
    assert decoded("not json") == "not json"
    assert decoded(None) is None
