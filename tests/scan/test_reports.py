"""What is shown: complete, and harmless to whatever shows it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from onejob.errors import UsageError
from onejob.scan import Scan, scan
from onejob.scan.registry import all_rules, rule_for, rule_named
from onejob.scan.reports import as_html, as_markdown, as_sarif, table
from onejob.scan.reports.code import shown
from onejob.scan.sources import all_sources

HOSTILE = "<script>alert(1)</script>|\x1b[31m\u202e`x`"


@pytest.fixture
def found(tmp_path: Path) -> Scan:
    (tmp_path / "jobs.py").write_text(
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        f"BackgroundScheduler().add_job(work, 'cron', hour=3, id={HOSTILE!r})\n"
    )
    return scan(tmp_path)


def test_html_is_one_page_that_runs_and_fetches_nothing(found: Scan) -> None:
    page = as_html.report(found)
    tags = Tags()
    tags.feed(page)

    assert "script" not in tags.seen
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)


def test_markdown_cells_hold_no_markup(found: Scan) -> None:
    (row,) = [line for line in as_markdown.report(found).splitlines() if "jobs.py" in line]

    assert row.replace("\\|", "").count("|") == 7
    assert "<script>" not in row.replace("\\<", "")
    assert "\x1b" not in row


def test_sarif_names_the_place_the_rule_and_how_loud(found: Scan) -> None:
    log = json.loads(as_sarif.report(found))

    (run,) = log["runs"]
    (result,) = run["results"]
    assert result["level"] == "error"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "OJ101"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "jobs.py"
    assert place["region"]["startLine"] == 2


def test_text_ends_with_the_summary_and_starts_with_the_worst(found: Scan) -> None:
    lines = [line for line, _ in table.lines(found)]

    assert lines[0].startswith("UNGUARDED")
    assert lines[-1] == "1 triggers, 1 unguarded, in 1 files"


def test_many_processes_of_who_knows_what_are_not_called_guarded(tmp_path: Path) -> None:
    (tmp_path / "Procfile").write_text("web: gunicorn --workers 3 web:app\n")

    text = "\n".join(line for line, _ in table.lines(scan(tmp_path)))

    assert "MULTIPLIER" in text
    assert "do (OJ301)" in text


@pytest.mark.parametrize(("guard", "told"), [("", False), ("app.guard(scheduler)\n", True)])
def test_many_processes_of_what_is_guarded_are_nothing_to_do(
    guard: str, told: bool, tmp_path: Path
) -> None:
    (tmp_path / "Procfile").write_text("web: gunicorn --workers 3 web:app\n")
    (tmp_path / "web.py").write_text(
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        "from onejob import App\n"
        "app = App()\n"
        "scheduler = BackgroundScheduler()\n"
        "scheduler.add_job(work, 'cron', hour=3, id='nightly')\n"
        f"{guard}scheduler.start()\n"
    )

    text = "\n".join(line for line, _ in table.lines(scan(tmp_path)))

    assert "MULTIPLIER" in text
    assert ("nothing to do" in text) is told
    assert ("do (OJ301)" in text) is not told


@pytest.mark.parametrize(
    ("line", "language", "left"),
    [
        ("s.add_job(f, 'cron', password='hunter2')", "python", "s.add_job(f, …, password=…)"),
        ("const t = `Bearer abc`; // secret", "javascript", "const t = …;"),
        ("run(AKIAIOSFODNN7EXAMPLE)", "python", "run(…)"),
        ("password: hunter2", "yaml", "password: …"),
        ("*/5 * * * * curl http://x", "crontab", "…"),
    ],
)
def test_a_shown_line_keeps_names_and_loses_values(line: str, language: str, left: str) -> None:
    assert shown(line, language).rstrip() == left


def test_every_rule_has_its_page_and_every_kind_one_rule() -> None:
    sections = ("What", "Why it matters", "Example", "Instead", "When to ignore")
    rules = all_rules()

    assert [rule.code for rule in rules] == sorted({rule.code for rule in rules})
    kinds = [kind for rule in rules for kind in rule.kinds]
    assert len(kinds) == len(set(kinds))
    for rule in rules:
        headings = [line for line in rule.page.splitlines() if line in sections]
        assert headings == [*sections], rule.code
        assert rule.page.startswith(f"{rule.code} {rule.name}\n")
        assert all(rule_for(kind) is rule for kind in rule.kinds)


def test_a_rule_is_found_by_code_and_by_name() -> None:
    assert rule_named("oj103") is rule_named("timer-loop")
    with pytest.raises(UsageError, match="timer-loop"):
        rule_named("no-such-rule")


def test_a_source_is_chosen_by_the_name_of_the_file() -> None:
    def readers(path: str, program: str = "") -> set[str]:
        return {source.name for source in all_sources() if source.takes(path, program)}

    assert "python" in readers("a/b.py")
    assert "python" in readers("bin/run", "python")
    assert "javascript" in readers("a/b.tsx")
    assert readers("a/b.xyz") == set()
