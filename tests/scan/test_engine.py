"""Walking and reading: what is left out, what survives, what never happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onejob.scan import Options, scan, wire
from onejob.scan.facts import Guard, Note, Trigger
from onejob.scan.finding import Related, Verdict
from onejob.scan.ignore import Ignores
from onejob.scan.reading import FILE_BYTES_MAX, decoded, program_of
from onejob.scan.walk import walk

JOB = "import schedule\nschedule.every(5).minutes.do(work)\n"


def write(root: Path, *names: str, text: str = JOB) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_tests_documents_and_dependencies_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "jobs.py", "examples/jobs.py")
    write(tmp_path, "tests/jobs.py", "test_jobs.py", "docs/jobs.py", "node_modules/x/jobs.py")
    write(tmp_path, "vendor/jobs.py", ".agents/jobs.py", "dist/jobs.py", "README.md")

    assert {f.path for f in scan(tmp_path).findings} == {"jobs.py", "examples/jobs.py"}


def test_ignored_files_are_passed_over_as_git_does(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "made/b.py", "kept/c.py", "kept/made/d.py", "log/e.py", "deep/x/f.py")
    (tmp_path / ".gitignore").write_text("/made/\nlog\n*.pyc\ndeep/**/f.py\n!a.py\n")
    (tmp_path / "kept/.gitignore").write_text("c.py\n!c.py\n")

    assert {f.path for f in scan(tmp_path).findings} == {"a.py", "kept/c.py", "kept/made/d.py"}


@pytest.mark.parametrize(
    ("pattern", "path", "directory", "ignored"),
    [
        ("*.log", "a/b.log", False, True),
        ("/b.log", "a/b.log", False, False),
        ("build/", "a/build", True, True),
        ("build/", "a/build", False, False),
        ("a/**/z", "a/b/c/z", False, True),
        ("x[!0-9].py", "xa.py", False, True),
        ("x[!0-9].py", "x1.py", False, False),
        ("\\#x", "#x", False, True),
        ("# x", "# x", False, False),
        ("[", "[", False, True),
    ],
)
def test_a_pattern_means_what_git_means(
    pattern: str, path: str, directory: bool, ignored: bool
) -> None:
    assert Ignores().below("", pattern).ignores(path, directory=directory) is ignored


def test_links_are_not_followed_into_a_loop(tmp_path: Path) -> None:
    write(tmp_path, "a/jobs.py")
    os.symlink(tmp_path / "a", tmp_path / "a" / "again")
    os.symlink("/etc/hostname", tmp_path / "a" / "outside.py")

    assert [*walk(tmp_path)] == ["a/jobs.py"]


def test_a_huge_file_ends_in_a_note(tmp_path: Path) -> None:
    with (tmp_path / "huge.py").open("wb") as file:
        file.truncate(100_000_000)

    found = scan(tmp_path)

    assert found.findings == ()
    assert [note.path for note in found.notes] == ["huge.py"]
    assert f"{FILE_BYTES_MAX // 1000} kB" in found.notes[0].text


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 5_000 + ")" * 5_000,
        "x = " + "-" * 20_000 + "1",
        "x = " + "[" * 300 + "]" * 300 + "\nimport schedule",
        "if x:\n" + "".join(" " * n + "if x:\n" for n in range(1, 150)),
        "def f(\x00): lock",
        "lock = '''" + "a" * 10_000,
        "\ufeff\u202eschedule",
    ],
    ids=["parentheses", "minuses", "brackets", "indents", "nul", "open", "marks"],
)
@pytest.mark.parametrize("name", ["x.py", "x.js", "x.ts", "x.yaml", "x.go", "x.rb", "x.tf"])
def test_hostile_text_ends_without_a_crash(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text("schedule cron sleep\n" + text)

    assert scan(tmp_path).triggers == 0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("schedule\r\n".encode("utf-16"), "schedule\n"),
        (b"\xff\xfe\x00", "\ufffd"),
        (b"caf\xe9", "caf\ufffd"),
        (b"\xef\xbb\xbfx\ry", "x\ny"),
        (b"\x7fELF\x00\x01", None),
    ],
)
def test_every_encoding_gives_a_text_or_nothing(data: bytes, text: str | None) -> None:
    assert decoded(data) == text


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("#!/bin/sh", "sh"),
        ("#!/usr/bin/env bash", "sh"),
        ("#!/usr/bin/env -S node --x", "node"),
        ("#!/opt/python3.11/bin/python3.11", "python"),
        ("import x", ""),
    ],
)
def test_the_first_line_names_the_program(line: str, program: str) -> None:
    assert program_of(line) == program


def test_facts_come_back_from_the_wire_as_they_went() -> None:
    trigger = Trigger(
        kind="loop",
        path="a.py",
        line=1,
        language="python",
        guards=(Guard("x", Verdict.WEAK_GUARD, 2),),
        alone=Verdict.CONSUMER,
        related=(Related("b.py", 3),),
    )

    assert wire.decode(wire.encode([trigger, Note("c", "d")])) == (trigger, Note("c", "d"))


def test_excluded_paths_and_other_rules_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a/jobs.py", "b/jobs.py")
    write(tmp_path, "c/loop.py", text="import time\nwhile True:\n    work()\n    time.sleep(5)\n")

    found = scan(tmp_path, Options(exclude=("b/*",), only=("OJ101",)))

    assert [f.path for f in found.findings] == ["a/jobs.py"]


def test_a_guard_of_the_house_is_believed(tmp_path: Path) -> None:
    text = "import schedule\n@once_in_fleet\ndef work(): ...\nschedule.every(5).minutes.do(work)\n"
    write(tmp_path, "jobs.py", text=text)

    (bare,) = scan(tmp_path).findings
    (told,) = scan(tmp_path, Options(house_guards=("once_in_fleet",))).findings

    assert (bare.verdict, told.verdict) == (Verdict.UNGUARDED, Verdict.GUARDED)
