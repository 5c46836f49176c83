"""What is generated is what the code says today; what is promised has a test that exists."""

from __future__ import annotations

import re
import subprocess
import sys

from docs.blocks import ROOT

_TEST = re.compile(r"def (test_\w+)")


def test_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_every_test_that_a_document_names_exists() -> None:
    places = [ROOT / "tests", ROOT / "src" / "onejob" / "testing"]
    there = {
        name
        for place in places
        for file in place.rglob("*.py")
        for name in _TEST.findall(file.read_text(encoding="utf-8"))
    }
    documents = [ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        (document.name, name)
        for document in documents
        for name in re.findall(r"`(test_\w+)`", document.read_text(encoding="utf-8"))
    }

    assert [pair for pair in sorted(named) if pair[1] not in there] == []
    assert len({name for _, name in named}) > 40, "the guarantees name their tests"


def test_every_promise_has_its_row() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")

    assert re.findall(r"^## (P\d)\b", text, re.MULTILINE) == [f"P{n}" for n in range(1, 9)]


def test_every_decision_has_its_four_parts() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    numbers = [int(record.name[:4]) for record in records]

    assert numbers == list(range(1, len(records) + 1))
    for record in records:
        parts = re.findall(r"^## (\w+)", record.read_text(encoding="utf-8"), re.MULTILINE)
        assert parts == ["Status", "Context", "Decision", "Consequences"], record.name
