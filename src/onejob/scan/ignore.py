"""``.gitignore`` files: patterns that apply below the directory they stand in, the last one wins.

Read here instead of asked of git: a repository's own configuration can make git start programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

PATTERNS_MAX = 5_000
PATTERN_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file."""

    regex: re.Pattern[str]
    negated: bool
    directories_only: bool


@dataclass(frozen=True, slots=True)
class Ignores:
    """The patterns in force at a directory: of each file above it, outermost first."""

    files: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()

    def below(self, directory: str, text: str) -> Ignores:
        """Add the ignore file of a directory ("" for the root)."""
        patterns = parse(text)
        return Ignores((*self.files, (directory, patterns))) if patterns else self

    def ignores(self, path: str, *, directory: bool) -> bool:
        """Decide about one path below; whether a parent is ignored is the walk's business."""
        for place, patterns in reversed(self.files):
            relative = path[len(place) + 1 :] if place else path
            for pattern in reversed(patterns):
                if pattern.directories_only and not directory:
                    continue
                if pattern.regex.fullmatch(relative):
                    return not pattern.negated
        return False


def parse(text: str) -> tuple[Pattern, ...]:
    """Read an ignore file; a line that cannot be a pattern is passed over, as git does."""
    patterns = []
    for raw in text.splitlines()[:PATTERNS_MAX]:
        line = raw.rstrip()
        if not line or line.startswith("#") or len(line) > PATTERN_CHARACTERS_MAX:
            continue
        negated = line.startswith("!")
        line = line[negated:].removeprefix("\\")
        directories_only = line.endswith("/")
        regex = translated(line.rstrip("/"))
        if regex is not None:
            patterns.append(Pattern(regex, negated, directories_only))
    return tuple(patterns)


@lru_cache(maxsize=2_048)
def translated(glob: str) -> re.Pattern[str] | None:
    """Return a glob of git as a regular expression over a whole relative path."""
    anchored = "/" in glob
    parts = re.findall(r"\*\*/|/\*\*$|\*+|\?|\[[^\]/]+\]|.", glob.removeprefix("/"))
    expression = "".join(map(_part, parts))
    if not anchored:
        expression = f"(?:.*/)?{expression}"
    try:
        return re.compile(expression)
    except re.error:
        return None


def _part(part: str) -> str:
    match part:
        case "**/":
            return "(?:.*/)?"
        case "/**":
            return "/.*"
        case "?":
            return "[^/]"
        case _ if part.startswith("*"):
            return "[^/]*"
        case _ if part.startswith("[") and len(part) > 1:
            return "[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", part[1] == "!") + "]"
        case _:
            return re.escape(part)
