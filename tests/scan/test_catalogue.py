"""Each of the fifty kinds of trigger has its example, variants of it, and a safe one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"
KINDS = range(1, 51)
VARIANTS_MIN = 3
EXPECT = re.compile(r"OJ\d+ ([A-Z-]+)")
MARKED = re.compile(r"expect: ((?:OJ\d+ [A-Z-]+(?:, )?)+)|ok: OJ\d+")
#: A line with one of these is not multiplied by replicas, or by fewer things than the bare one.
SAFER = re.compile(
    r"GUARDED|NO-OVERLAP|HOST-ONLY|SINGLE|DISABLED|DORMANT|NEVER|PER-PROCESS-OK|WEAK-GUARD"
)


@pytest.mark.parametrize("number", KINDS, ids="T{:02}".format)
def test_a_kind_has_three_variants_and_a_safe_one(number: int) -> None:
    verdicts, looks_alike = marks_of(number)

    assert len(verdicts) >= VARIANTS_MIN, f"T{number:02}: only {verdicts}"
    assert looks_alike or any(SAFER.fullmatch(verdict) for verdict in verdicts)


def marks_of(number: int) -> tuple[list[str], int]:
    """Return the verdicts that a kind's fixtures expect, and how many look-alikes they have."""
    cases = [*FIXTURES.glob(f"*/t{number:02}_*"), *FIXTURES.glob(f"*/t{number:02}.*")]
    files = [file for case in cases for file in ([case] if case.is_file() else case.rglob("*"))]
    verdicts: list[str] = []
    looks_alike = 0
    for file in (file for file in files if file.is_file()):
        for match in MARKED.finditer(file.read_text(encoding="utf-8")):
            verdicts += EXPECT.findall(match[0])
            looks_alike += match[1] is None
    return verdicts, looks_alike
