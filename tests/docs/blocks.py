"""The fenced blocks of our documents, and what may be in them.

- ``python`` blocks of one document are executed in order, in one namespace; one with a title
  (```` ```python title="shop.py" ````) is written to that file instead.
- ``console`` blocks are run: lines after ``$`` are commands, the others are what they must print.
  A command that ends otherwise than with 0 says so: ``# exits 1``.
- ``text`` blocks are drawings, which nobody runs; one with a title is a file too.
- ``sql``, ``lua``, ``javascript`` and ``java`` blocks are for other services; a test beside their
  subject runs them.
- ``<!-- not run: REASON -->`` above a block leaves it out; those are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {"python", "console", "text", "sql", "lua", "javascript", "java"}

_FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^\n]*?) -->\n)?"
    r"^```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([\w./]+)"')


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. ``not_run`` is why nobody runs it, "" where it is run."""

    document: Path
    line: int
    language: str
    title: str
    text: str
    not_run: str

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """Return what users read."""
    top = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(document: Path) -> Iterator[Block]:
    """Return the blocks of a document in order."""
    text = document.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        title = _TITLE.search(found["info"])
        yield Block(
            document,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            title[1] if title else "",
            found["text"],
            found["reason"] or "",
        )
