"""What the house allows: by a comment with a reason, by a baseline, by its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from onejob.errors import UsageError
from onejob.scan import scan
from onejob.scan.configuration import configured, failing
from onejob.scan.finding import Verdict
from onejob.scan.suppress import allowances, new_ones, read_baseline, write_baseline

JOB = "import schedule\nschedule.every(5).minutes.do(work)"


@pytest.mark.parametrize(
    ("comment", "kept"),
    [
        ("  # onejob: allow in-process-schedule: its own cache", 0),
        ("  # onejob: allow OJ101 (its own cache)", 0),
        ("  # onejob: allow timer-loop, in-process-schedule - its own cache", 0),
        ("  # onejob: allow timer-loop: another rule", 1),
        ("  # onejob: allow in-process-schedule", 1),
    ],
)
def test_a_comment_allows_its_rule_where_it_gives_a_reason(
    tmp_path: Path, comment: str, kept: int
) -> None:
    (tmp_path / "jobs.py").write_text(f"{JOB}{comment}\n")

    found = scan(tmp_path)

    assert (len(found.findings), found.allowed) == (kept, 1 - kept)


def test_a_comment_without_a_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(f"{JOB}  # onejob: allow in-process-schedule\n")

    (note,) = scan(tmp_path).notes

    assert (note.line, "reason" in note.text) == (2, True)


def test_a_comment_may_stand_above_and_in_any_language() -> None:
    (found,) = allowances("a.sql", "/* onejob: allow database-event: one server */\nCREATE EVENT")

    assert (found.line, found.rules, found.reason) == (1, ("database-event",), "one server")


def test_a_baseline_forgets_what_was_there_and_nothing_new(tmp_path: Path) -> None:
    file, baseline = tmp_path / "jobs.py", tmp_path / "known.json"
    file.write_text(f"{JOB}\n")
    assert write_baseline(baseline, scan(tmp_path).findings) == 1

    file.write_text(f"# moved\n\n{JOB}\nschedule.every(5).minutes.do(work)\n")

    assert len(new_ones(scan(tmp_path).findings, read_baseline(baseline))) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"version": 99, "findings": []}', "{"])
def test_what_is_no_baseline_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "known.json").write_text(text)

    with pytest.raises(UsageError, match="--write-baseline"):
        read_baseline(tmp_path / "known.json")


def test_the_configuration_is_read_from_either_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.onejob.scan]\nguards = ["TaskLock"]\nfail-on = "weak-guard"\n'
    )

    assert configured(tmp_path).guards == ("TaskLock",)

    (tmp_path / ".onejob.toml").write_text('[scan]\nexclude = ["old/*"]\n')

    assert configured(tmp_path).exclude == ("old/*",)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[scan]\nguard = ["x"]\n', "guards"),
        ('[scan]\nguards = "x"\n', "list"),
        ("[scan]\nfail-on = 3\n", "text"),
        ("[scan", "TOML"),
    ],
)
def test_a_wrong_configuration_is_refused_with_what_is_right(
    tmp_path: Path, text: str, word: str
) -> None:
    (tmp_path / ".onejob.toml").write_text(text)

    with pytest.raises(UsageError, match=word):
        configured(tmp_path)


def test_failing_means_the_verdict_and_all_that_are_worse() -> None:
    assert failing("none") == frozenset()
    assert Verdict.PER_PROCESS_SCHEDULE in failing("unguarded")
    assert Verdict.WEAK_GUARD not in failing("unguarded")
    assert {Verdict.WEAK_GUARD, Verdict.UNGUARDED} <= failing("weak-guard")
    with pytest.raises(UsageError, match="weak-guard"):
        failing("sometimes")
