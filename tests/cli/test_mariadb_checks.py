"""The commands on MariaDB: what it keeps, what the server must be like, and what it lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onejob.cli import mariadb_checks


def onejob(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("onejob")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize(
    ("version", "ok"),
    [
        ("10.11.19-MariaDB-0+deb12u1", True),
        ("10.5.29-MariaDB", False),
        ("8.0.36", True),
        ("5.7.44-log", False),
    ],
)
def test_a_server_that_cannot_skip_locked_rows_is_too_old(version: str, ok: bool) -> None:
    assert mariadb_checks.release({"version": version}).ok is ok


def test_what_a_crash_or_a_failover_forgets_is_said() -> None:
    """C10"""
    assert mariadb_checks.durability({"innodb_flush_log_at_trx_commit": "1"}).ok
    assert not mariadb_checks.durability({"innodb_flush_log_at_trx_commit": "2"}).ok
    assert mariadb_checks.replication({"log_bin": "OFF"}).ok
    assert "may lose" in mariadb_checks.replication({"log_bin": "ON"}).detail


@pytest.mark.parametrize(("binlog_format", "ok"), [("ROW", True), ("STATEMENT", False)])
def test_a_binary_log_that_refuses_read_committed_fails_the_check(
    binlog_format: str, ok: bool
) -> None:
    told = {"log_bin": "ON", "binlog_format": binlog_format}

    assert mariadb_checks.replication(told).ok is ok


def test_a_server_that_is_read_only_fails_the_check() -> None:
    assert mariadb_checks.writing({"read_only": "OFF"}).ok
    assert not mariadb_checks.writing({"read_only": "ON"}).ok


@pytest.mark.slow
def test_the_command_line_makes_tables_uses_them_and_says_what_is_lacking(
    mariadb_url: str, mariadb_schema: str
) -> None:
    """A01: ``onejob once`` runs its program in each period once, and says so."""
    store = ("--url", mariadb_url, "--schema", mariadb_schema)
    made = onejob("init", *store, "--json")
    doctor = onejob("doctor", *store, "--json")
    first, second = (
        onejob("once", "nightly", "--per", "day", *store, "--", "echo", "done") for _ in range(2)
    )
    locks = onejob("locks", *store, "--json")
    runs = onejob("runs", *store)

    assert json.loads(made.stdout)["to"] == 1
    checked = {check["name"] for check in json.loads(doctor.stdout)["checks"]}
    assert checked >= {"connection", "schema", "clock", "server", "durability", "replication"}
    assert (first.returncode, first.stdout) == (0, "done\n")
    assert (second.returncode, second.stdout) == (0, "")
    assert (locks.returncode, json.loads(locks.stdout)) == (0, [])
    assert runs.returncode == 3
    assert "MariaDB cannot" in runs.stderr
    assert "postgresql://" in runs.stderr
