"""``onejob db``: the text of a command, and its plan in the store at hand."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from onejob.cli.root import root
from onejob.commands.hot import hot
from onejob.stores.sqlite import SqliteStore


def explained(tmp_path: Path, *words: str) -> tuple[int, str]:
    store = SqliteStore(tmp_path / "jobs.db")
    store.init()
    store.close()
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    result = CliRunner().invoke(root, ["db", "explain", *words, "--url", url])
    return result.exit_code, result.output


def test_a_plan_is_printed(tmp_path: Path) -> None:
    code, output = explained(tmp_path, "run_claim")

    assert code == 0
    assert "run_claim (queue=? AND priority=?" in output


def test_every_hot_command_has_a_plan(tmp_path: Path) -> None:
    code, output = explained(tmp_path, "--json")

    plans = {one["command"]: one["plan"] for one in json.loads(output)}
    assert code == 0
    assert set(plans) == set(hot())


def test_a_name_that_is_no_hot_command_is_refused_with_those_that_are(tmp_path: Path) -> None:
    code, output = explained(tmp_path, "run_clam")

    assert code == 2
    assert "run_claim" in output
