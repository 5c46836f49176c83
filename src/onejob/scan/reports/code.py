"""One scanned line, made fit to be shown: names and structure stay, texts and values go.

A line of a manifest or a crontab may hold a password anywhere, so of such a line only what stands
before the value is kept.
"""

from __future__ import annotations

import re

BLACK = "…"
CHARACTERS_MAX = 160
_CODE_WORDS = """
    python javascript typescript java kotlin ruby go csharp php scala groovy
"""
_CODE = frozenset(_CODE_WORDS.split())
_TEXTS = re.compile(r"[rbfuRBFU]{0,2}(\"\"\"|'''|\"|'|`)(?:\\.|(?!\1).)*(?:\1|$)")
_COMMENT = re.compile(r"(?:(?<=\s)|^)(?:#|//|--)\s.*$")
_NUMBER = re.compile(r"\b\d[\w.]{5,}\b")
_BARE = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{12,}\b")
_KEY = re.compile(r"^\s*(?:-\s+)?[\w.\"'-]+\s*[:=]")


def shown(line: str, language: str) -> str:
    """Return a line without its texts, its comments and whatever could be a secret."""
    line = line.strip()[:1_000]
    if language not in _CODE:
        key = _KEY.match(line)
        return f"{key[0]} {BLACK}" if key else BLACK
    line = _TEXTS.sub(BLACK, line)
    line = _COMMENT.sub("", line)
    line = _BARE.sub(BLACK, _NUMBER.sub(BLACK, line))
    return line if len(line) <= CHARACTERS_MAX else line[:CHARACTERS_MAX] + BLACK
