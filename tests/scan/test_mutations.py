"""Readers meet files that are broken in a thousand ways, and none of them stumbles."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from onejob.scan.engine import facts_of
from onejob.scan.facts import Note
from onejob.scan.reading import SourceFile

FIXTURES = Path(__file__).parent / "fixtures"
MUTATIONS = 6
PIECES = (
    "(",
    ")",
    "{",
    "}",
    "[",
    '"',
    "'",
    "`",
    ":",
    "\n",
    "    ",
    "#",
    "${",
    "{{",
    "\\",
    ",",
    "*",
)


def mutated(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 1, 5, 40, 400)))
        middle = chance.choice((chance.choice(PIECES) * chance.randint(0, 3), text[start:end] * 2))
        text = text[:start] + middle + text[end:]
    return text


def files() -> list[Path]:
    return [path for path in sorted(FIXTURES.rglob("*")) if path.is_file()]


@pytest.mark.parametrize("file", files(), ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_broken_file_makes_no_reader_stumble(file: Path) -> None:
    chance = random.Random(file.name)
    text = file.read_text(encoding="utf-8")

    for _ in range(MUTATIONS):
        facts = facts_of(SourceFile(file.name, mutated(text, chance)))
        assert not [f for f in facts if isinstance(f, Note) and "stumbled" in f.text]
