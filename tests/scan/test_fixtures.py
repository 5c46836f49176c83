"""Each fixture says on its own lines what the scanner finds there, and it finds nothing else.

``expect: OJ101 UNGUARDED`` on a line: a finding of that rule with that verdict. A second finding on
the line follows a comma. ``ok: OJ101``: none of that rule, or a safe one. A directory whose name
ends in ``.tree`` is scanned as one repository; every other file alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from onejob.scan import Finding, scan
from onejob.scan.finding import UNGUARDED

FIXTURES = Path(__file__).parent / "fixtures"
EXPECT = re.compile(r"expect: ((?:OJ\d+ [A-Z-]+(?:, )?)+)")
OK = re.compile(r"ok: (OJ\d+)")


def cases() -> Iterator[Path]:
    for path in sorted(FIXTURES.rglob("*")):
        inside = any(parent.suffix == ".tree" for parent in path.parents)
        if not inside and (path.suffix == ".tree" or path.is_file()):
            yield path


@pytest.mark.parametrize("case", [*cases()], ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_fixture_gives_what_its_lines_say(case: Path) -> None:
    found = scan(case)

    assert [note.text for note in found.notes] == []
    assert told(found.findings) == expected(case)
    for path, line, rule in allowed(case):
        assert not unsafe(found.findings, path, line, rule), f"{path}:{line} {rule}"


def told(findings: tuple[Finding, ...]) -> Counter[tuple[str, int, str]]:
    return Counter((f.path, f.line, f"{f.rule} {f.verdict}") for f in findings)


def expected(case: Path) -> Counter[tuple[str, int, str]]:
    return Counter(
        (path, number, each)
        for path, number, line in lines(case)
        if (match := EXPECT.search(line))
        for each in match[1].split(", ")
    )


def allowed(case: Path) -> list[tuple[str, int, str]]:
    return [
        (path, number, match[1]) for path, number, line in lines(case) if (match := OK.search(line))
    ]


def unsafe(findings: tuple[Finding, ...], path: str, line: int, rule: str) -> bool:
    return any(
        f.path == path and f.line == line and f.rule == rule and f.verdict in UNGUARDED
        for f in findings
    )


def lines(case: Path) -> Iterator[tuple[str, int, str]]:
    files = [case] if case.is_file() else sorted(p for p in case.rglob("*") if p.is_file())
    for file in files:
        place = file.name if case.is_file() else file.relative_to(case).as_posix()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            yield place, number, line
