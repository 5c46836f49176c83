"""What users call changes on purpose only."""

from __future__ import annotations

from difflib import unified_diff

from api.public_api import SNAPSHOT, described
from onejob import App


def test_the_public_api_is_as_written_down() -> None:
    """Run tests/api/public_api.py to write it anew, and tell users in CHANGELOG.md."""
    kept, found = SNAPSHOT.read_text(encoding="utf-8").splitlines(), described().splitlines()

    assert list(unified_diff(kept, found, "public_api.txt", "the code", lineterm="", n=0)) == []


def test_a_parameter_that_changes_is_seen() -> None:
    before = described()
    stop = App.stop
    try:
        App.stop = lambda self, now: False  # type: ignore[method-assign,assignment,misc]
        assert described() != before
    finally:
        App.stop = stop  # type: ignore[method-assign]
