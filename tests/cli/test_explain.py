"""explain: an error, a traceback or a log in, what to do out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onejob.cli.root import root
from onejob.core.sqlstates import STATES

LOG = """\
2026-11-30 09:00:00 UTC [71] 23505 FEHLER:  doppelter Schlüsselwert verletzt Unique-Constraint »ik«
2026-11-30 09:00:00 UTC [71] 23505 DETAIL:  Schlüssel »(customer, period)=(7, secret)« existiert.
2026-11-30 09:00:00 UTC [71] 23505 ANWEISUNG:  INSERT INTO invoices VALUES (7, 'secret')
2026-11-30 09:00:01 UTC [71] 25P02 FEHLER:  aktuelle Transaktion wurde abgebrochen
2026-11-30 09:00:02 UTC [72] 23505 FEHLER:  doppelter Schlüsselwert verletzt Unique-Constraint »ik«
2026-11-30 09:00:02 UTC [72] 23505 DETAIL:  Schlüssel »(customer, period)=(8, secret)« existiert.
2026-11-30 09:00:03 UTC [23505] LOG:  checkpoint starting: time
"""


def explain(*arguments: str, text: str | None = LOG) -> Result:
    return CliRunner().invoke(root, ["explain", *arguments], input=text)


def test_each_distinct_violation_of_a_log_is_told_once_with_its_count() -> None:
    result = explain()

    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[1].split()[:5] == ["2", "23505", "unique_violation", "duplicate", "ik"]
    assert lines[1].endswith("customer, period")
    assert lines[2].split()[:3] == ["1", "25P02", "in_failed_sql_transaction"]
    assert (
        "The first error in this transaction is the cause: unique_violation of ik" in result.stdout
    )
    assert result.stdout.count("does not prove that the payment succeeded") == 1
    assert "secret" not in result.output


def test_the_document_has_the_first_one_and_every_one() -> None:
    result = explain("--json")

    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (told["sqlstate"], told["name"], told["kind"], told["constraint"]) == (
        "23505",
        "unique_violation",
        "duplicate",
        "ik",
    )
    assert told["columns"] == ["customer", "period"]
    assert told["reference"].startswith("https://")
    assert [(each["sqlstate"], each["count"]) for each in told["violations"]] == [
        ("23505", 2),
        ("25P02", 1),
    ]
    assert "secret" not in result.output


def test_values_are_shown_only_where_they_are_asked_for() -> None:
    """E03: then each row is a violation of its own."""
    told = json.loads(explain("--json", "--values").stdout)

    assert [each.get("values") for each in told["violations"]] == ["7, secret", "8, secret", None]
    assert "8, secret" in explain("--values").stdout


def test_a_file_is_read_as_a_pipe_is(tmp_path: Path) -> None:
    file = tmp_path / "error.txt"
    file.write_text("ERROR 1062 (23000): Duplicate entry 'secret' for key 'mail_key'\n")

    named, piped = explain(str(file), "--json", text=None), explain("-", "--json", text=LOG)

    assert json.loads(named.stdout)["constraint"] == "mail_key"
    assert json.loads(piped.stdout)["constraint"] == "ik"


def test_another_key_than_the_one_that_is_meant_is_another_constraint() -> None:
    """E01"""
    other = json.loads(explain("--json", "--constraint", "payments_key").stdout)
    same = json.loads(explain("--json", "--constraint", "ik").stdout)

    assert (other["kind"], same["kind"]) == ("other-constraint", "duplicate")


def test_text_without_a_violation_is_no_finding() -> None:
    result, as_json = explain(text="all is well\n"), explain("--json", text="all is well\n")

    assert (result.exit_code, result.stdout) == (0, "No violation found.\n")
    assert (as_json.exit_code, json.loads(as_json.stdout)["violations"]) == (0, [])
    assert json.loads(as_json.stdout)["kind"] == "unknown"


def test_the_list_has_every_code_with_what_to_do() -> None:
    told = json.loads(explain("--list", "--json").stdout)
    shown = explain("--list")

    assert [each["sqlstate"] for each in told] == list(STATES)
    assert all(each["meaning"] and each["advice"] and each["reference"] for each in told)
    assert shown.exit_code == 0
    assert all(f"{code}  " in shown.stdout for code in STATES)


@pytest.mark.parametrize("file", ["nowhere.txt", "."])
def test_a_file_that_cannot_be_read_is_a_usage_error(file: str) -> None:
    result = explain(file)

    assert result.exit_code == 2
    assert "cannot read" in result.stderr


def test_bytes_that_are_no_text_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"\xff\xfe\x00 junk\nERROR:  deadlock detected\n")

    assert json.loads(explain(str(file), "--json").stdout)["kind"] == "deadlock"
