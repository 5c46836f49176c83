"""From three copies to one takes ten lines at the most: what the pages show before and after."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest

from docs.blocks import ROOT, blocks

LINES_MAX = 10
PAGES = {
    "django": [("digest_before.py", "shop/jobs.py")],
    "flask": [("web_before.py", "web.py"), ("web_before.py", "shop_web.py")],
    "fastapi": [("web_before.py", "web.py")],
    "celery": [("shop_before.py", "shop_tasks.py")],
}


def changed(before: str, after: str) -> int:
    """Count the lines that somebody types or takes out; one that is rewritten counts once."""
    one, two = ([line for line in text.splitlines() if line.strip()] for text in (before, after))
    matcher = SequenceMatcher(None, one, two, autojunk=False)
    return sum(
        max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"
    )


@pytest.mark.parametrize("page", PAGES)
def test_from_three_to_one_takes_ten_lines(page: str) -> None:
    titled = {
        block.title: block.text
        for block in blocks(ROOT / "docs" / "how-to" / f"{page}.md")
        if block.title
    }

    for before, after in PAGES[page]:
        assert 0 < changed(titled[before], titled[after]) <= LINES_MAX, (before, after)


def test_lines_are_counted_as_somebody_types_them() -> None:
    assert changed("a\nb\nc\n", "a\nB\nc\n\nd\n") == 2
    assert changed("a\n", "a\n") == 0
