"""What no file of the project may contain, wherever it stands."""

from __future__ import annotations

import re

import pytest

from tidy.tree import place, tracked_files

# Each is written so that this file doesn't contain what it looks for.
FORBIDDEN = {
    "unfinished work: finish it, or file an issue": r"\b(?:TO" r"DO|FIX" r"ME|X{3})\b",
    "a path that only one machine has": r"(?<![\w.])/(?:work|root|tmp/oj)/",
    "the address of a package index, which belongs to each user's settings": (
        r"\b(?:pypi|pythonhosted|npmjs|proxy\.golang)\.(?:org|com)\b"
    ),
}


@pytest.mark.parametrize("reason", FORBIDDEN)
def test_no_tracked_file_contains(reason: str) -> None:
    """Neither what is unfinished, nor what ties the project to a machine or to an index."""
    pattern = re.compile(FORBIDDEN[reason])

    found = [
        f"{place(file)}:{number}: {line.strip()[:80]}"
        for file in tracked_files()
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []
