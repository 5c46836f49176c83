"""The scanner over onejob's own examples and documents: what we advise, it calls guarded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onejob.scan import Finding, Verdict, scan
from onejob.scan.finding import UNGUARDED

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r'(?ms)^```python(?: title="([\w./]+)")?[^\n]*\n(.*?)^```')
CRON = re.compile(r"(?ms)^```text\n(\d+ [^\n]*\n)```")
DOCUMENTS = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/how-to/*.md"))]
#: A block under such a name is what a reader has when the page begins.
BEFORE = "_before.py"


def blocks(document: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


def triggers(directory: Path) -> list[Finding]:
    return [finding for finding in scan(directory).findings if finding.role == "trigger"]


def test_every_trigger_of_our_examples_is_guarded() -> None:
    found = scan(ROOT / "examples")

    assert {f.verdict for f in found.findings} == {Verdict.GUARDED}
    assert {f.path for f in found.findings if f.role == "trigger"} >= {
        "fastapi_shop.py",
        "flask_shop.py",
        "guarded_flask.py",
        "kubernetes_cronjob.yaml",
        "nightly.py",
    }
    assert (found.unguarded, found.notes) == (0, ())


def test_the_shop_of_the_readme_is_guarded(tmp_path: Path) -> None:
    for title, text in blocks("README.md"):
        if title:
            (tmp_path / title).write_text(text)

    assert [(f.path, f.name, f.verdict) for f in triggers(tmp_path)] == [
        ("shop.py", "nightly", Verdict.GUARDED)
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_shows_a_schedule_that_fires_unguarded(document: str, tmp_path: Path) -> None:
    shown = [text for title, text in blocks(document) if not title.endswith(BEFORE)]
    (tmp_path / "shown.py").write_text("\n\n".join(shown))
    crons = CRON.findall((ROOT / document).read_text(encoding="utf-8"))
    (tmp_path / "crontab").write_text("".join(crons))

    assert [f for f in triggers(tmp_path) if f.verdict in UNGUARDED] == []


def test_what_a_project_has_before_fires_unguarded_and_what_it_has_then_does_not(
    tmp_path: Path,
) -> None:
    found = []
    for title, text in blocks("docs/how-to/django.md"):
        (tmp_path / title.rpartition("/")[2]).write_text(text)
    for trigger in triggers(tmp_path):
        found.append((trigger.path, trigger.name, trigger.verdict in UNGUARDED))

    assert found == [("digest_before.py", "digest", True), ("jobs.py", "digest", False)]


def test_only_the_app_that_onejob_makes_of_a_project_is_one(tmp_path: Path) -> None:
    """A module of the house that is called the same is no guard."""
    text = '@app.cron("0 2 * * *")\ndef digest(run): ...\n'
    (tmp_path / "ours.py").write_text(f"from onejob.django import app\n\n{text}")
    (tmp_path / "house.py").write_text(f"import onejob\nfrom house.django import app\n\n{text}")

    found = {trigger.path: trigger.verdict for trigger in triggers(tmp_path)}

    assert found["ours.py"] is Verdict.GUARDED
    assert found.get("house.py") is not Verdict.GUARDED


def test_the_documents_show_each_library_that_is_guarded(tmp_path: Path) -> None:
    text = "\n\n".join(text for _, text in blocks("docs/how-to/keep-your-scheduler.md"))
    (tmp_path / "shown.py").write_text(text)

    assert {f.kind for f in triggers(tmp_path)} >= {
        "apscheduler",
        "celery-beat",
        "rq-cron",
        "schedule",
    }
    (tmp_path / "shown.py").write_text(re.sub(r"(?m)^(?:guard = )?app\.guard\(.*$", "", text))
    assert all(f.verdict in UNGUARDED for f in triggers(tmp_path))
