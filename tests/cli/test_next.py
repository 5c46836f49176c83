"""``onejob next``: fire times, words and warnings, without a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onejob.cli.root import root


def shown(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["next", *arguments])


def told(*arguments: str) -> Any:
    result = shown(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_next_fire_times_are_shown_in_local_time_and_utc() -> None:
    result = shown(
        "0 2 * * *", "--tz", "Europe/Berlin", "-n", "2", "--from", "2027-03-27T12:00:00Z"
    )

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Europe/Berlin              UTC                   AFTER",
        "Sun 2027-03-28 03:00 CEST  2027-03-28T01:00:00Z  +13h",
        "Mon 2027-03-29 02:00 CEST  2027-03-29T00:00:00Z  +1d12h",
    ]
    assert result.stderr == ""


def test_a_fire_time_ahead_is_told_from_now() -> None:
    [_, row] = shown("* * * * *", "-n", "1").stdout.splitlines()

    assert " UTC  in " in row


def test_json_has_fire_times_words_and_warnings() -> None:
    """D04."""
    found = told("0 2 * * *", "--tz", "Europe/Berlin", "-n", "2", "--from", "2026-11-01T00:00Z")

    assert found == {
        "fire_times": ["2026-11-01T01:00:00Z", "2026-11-02T01:00:00Z"],
        "explained": "every day at 02:00 in Europe/Berlin; on 2027-03-28 02:00 does not exist: "
        "runs at 03:00 CEST; on 2027-10-31 02:00 comes twice: runs at the first (CEST)",
        "warnings": [],
    }
    assert len(told("5m")["fire_times"]) == 10


def test_explain_puts_the_words_first() -> None:
    """D04: zero, one or two runs, by a stated policy."""
    first, *_ = shown(
        "30 1 * * *", "--tz", "Europe/London", "--from", "2025-10-01T00:00Z", "--explain",
        "--on-fold", "second", "--on-gap", "skip",
    ).stdout.splitlines()  # fmt: skip

    assert first == (
        "every day at 01:30 in Europe/London; on 2025-10-26 01:30 comes twice: runs at the second "
        "(GMT); on 2026-03-29 01:30 does not exist: skipped, and recorded as missed."
    )


def test_around_a_clock_change_the_fire_times_before_and_after_are_shown() -> None:
    """D03, D04."""
    arguments = ("*/30 * * * *", "--tz", "Europe/London", "--from", "2025-10-01T00:00Z")
    [autumn, spring] = told(*arguments, "--around-dst")["changes"]
    people = shown(*arguments, "--around-dst").stdout

    assert (autumn["at"], autumn["moved_seconds"]) == ("2025-10-26T01:00:00Z", -3600)
    assert autumn["fire_times"][1:5] == [
        "2025-10-26T00:00:00Z",
        "2025-10-26T00:30:00Z",
        "2025-10-26T01:00:00Z",
        "2025-10-26T01:30:00Z",
    ]
    assert spring["moved_seconds"] == 3600
    assert "Sun 2025-10-26 01:30 BST" in people
    assert "Sun 2025-10-26 01:30 GMT" in people


def test_around_a_clock_change_a_rare_schedule_shows_its_neighbours() -> None:
    found = told(
        "0 12 * * 3", "--tz", "Europe/Berlin", "--from", "2027-01-01T00:00Z", "--around-dst"
    )

    assert found["changes"][0]["fire_times"] == ["2027-03-24T11:00:00Z", "2027-03-31T10:00:00Z"]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_where_no_clock_changes_that_is_said(zone: str) -> None:
    result = shown("0 2 * * *", "--tz", zone, "--around-dst")

    assert "No clock change lies ahead" in result.stderr
    assert told("0 2 * * *", "--tz", zone, "--around-dst")["changes"] == []


def test_what_never_fires_is_an_answer_and_a_warning() -> None:
    """D22."""
    result = shown("0 0 31 2 *")
    found = told("0 0 31 2 *")

    assert (result.exit_code, result.stdout) == (0, "never\n")
    assert "never fires" in result.stderr
    assert found["fire_times"] == []
    assert found["warnings"] == ["it never fires: no such date comes within 48 years."]


def test_warnings_go_to_stderr_beside_the_table() -> None:
    """D14, D15, D16."""
    for expression, says in [
        ("0 9 15 * 1", "either matches"),
        ("0 0 */3 * 1-5", "as in cronie"),
        ("0 0 31 * *", "does not exist in February"),
    ]:
        result = shown(expression)
        assert says in result.stderr
        assert says not in result.stdout


def test_intervals_stand_on_a_grid() -> None:
    found = told("1h30m", "-n", "2", "--from", "2026-01-01T00:10:00Z")
    anchored = told(
        "5m", "-n", "1", "--from", "2026-01-01T00:10:00Z", "--anchor", "2026-01-01T00:01:00Z"
    )

    assert found["fire_times"] == ["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"]
    assert anchored["fire_times"] == ["2026-01-01T00:11:00Z"]
    assert "+02:00" not in shown("5m", "--tz", "Europe/Berlin").stdout
    assert "Europe/Berlin" in shown("5m", "--tz", "Europe/Berlin").stdout


def test_five_words_without_quotes_are_an_expression() -> None:
    assert told("0", "2", "1", "1", "1") == told("0 2 1 1 1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("0 2 * * *", "--from", "2026-03-01T00:00"), "--from='2026-03-01T00:00' names no time"),
        (("0 2 * * *", "--from", "tomorrow"), "is not an instant"),
        (("0 2 * * *", "--tz", "Europe/Berln"), "Did you mean 'Europe/Berlin'"),
        (("0 2 * * *", "--on-gap", "run"), "must be 'shift' or 'skip'"),
        (("0 2 * * *", "--on-fold", "last"), "must be 'first', 'second' or 'both'"),
        (("0 2 * * *", "--anchor", "2026-01-01T00:00Z"), "--anchor is for an interval"),
        (("0 2 * * *", "-n", "0"), "ask for 1 to 10,000"),
        (("61 * * * *",), "field 1 (minute): 61 is outside 0-59"),
        (("0", "2"), "in quotes"),
        (("0", "2", "a.py", "b.py", "c.py", "d", "e"), "in quotes"),
        (("5m", "--on-fold", "both"), "runs in real elapsed time"),
        (("500ms",), "shorter than 1s"),
        (("5 parsecs",), "is not a duration"),
        (("@reboot",), "names no time"),
        (("often",), "has 1 field"),
    ],
)
def test_a_bad_question_is_refused_with_what_to_write(
    arguments: tuple[str, ...], says: str
) -> None:
    """D12: a naive instant too."""
    result = shown(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_it_runs_as_a_process_without_a_store_whatever_tz_says(tmp_path: Path) -> None:
    """D12."""
    main = (sys.executable, "-c", "from onejob.cli import main; main()")
    asked = ("next", "0 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-27T12:00:00Z")
    found = [
        subprocess.run(
            [*main, *asked, *options],
            cwd=tmp_path,
            env={**os.environ, "TZ": zone, "ONEJOB_URL": "postgresql://127.0.0.1:1/nowhere"},
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        ).stdout
        for zone in ("UTC", "Asia/Calcutta", "Mars/Olympus")
        for options in ((), ("--json",))
    ]

    assert len(set(found[::2])) == len(set(found[1::2])) == 1
    assert list(tmp_path.iterdir()) == []
