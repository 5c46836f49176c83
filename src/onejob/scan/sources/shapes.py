"""Shapes that look like a lock or a key and are none, in Java, Kotlin, Ruby, Go, C# and PHP.

They are found line by line, with comments taken out: the calls are short, and named alike in every
client library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from onejob.scan.bodies import without_comments
from onejob.scan.facts import Fact, Smell
from onejob.scan.finding import Confidence
from onejob.scan.reading import SourceFile

PATTERNS = ("*.java", "*.kt", "*.rb", "*.go", "*.cs", "*.php")

FOUND_MAX = 200
CHARACTERS_MAX = 400_000
#: A release further away than this belongs to something else.
LINES_APART_MAX = 60
_WORDS = re.compile(
    r"setIfAbsent|SetNX|setnx|ON\s+CONFLICT\s+DO|IntegrityViolation|DbUpdateException|StatementInvalid"
    r"|[iI]dempotency"
)
_LANGUAGES = {
    "java": "java",
    "kt": "kotlin",
    "rb": "ruby",
    "go": "go",
    "cs": "csharp",
    "php": "php",
}

_ARGUMENT = r"[^,()\n]+(?:\([^()\n]*\))?"
_TWO_STEPS = re.compile(
    rf"\bsetIfAbsent\(\s*{_ARGUMENT},\s*{_ARGUMENT}\s*\)|\.SetNX\([^;\n]*,\s*0\s*\)"
    r"|(?:\.|->)setnx\s*\(",
)
_TAKEN = re.compile(
    rf"\b(?:setIfAbsent|setnx)\(\s*(?P<key>{_ARGUMENT}),|\.SetNX\(\s*\w+,\s*(?P<go>{_ARGUMENT}),"
)
_COMPARED = re.compile(r"\beval\w*\(|[sS]cript|[cC]ompare|\.get\(|\bGet\(|\.Eval\(|->get\(")
_CONFLICT = re.compile(r"\bON\s+CONFLICT\s+DO\s+NOTHING\b", re.IGNORECASE)
_SWALLOWED = re.compile(
    r"\bcatch\s*\(\s*(?:final\s+)?[^){}]{0,120}(?:DataIntegrityViolationException"
    r"|SQLIntegrityConstraintViolationException|ConstraintViolationException|DbUpdateException)"
    r"[^){}]{0,60}\)\s*\{\s*\}"
    r"|\brescue\s+ActiveRecord::StatementInvalid[^\n]{0,60}\n\s*(?:nil\s*\n\s*)?end\b"
)
_RANDOM_KEY = re.compile(
    r"[iI]dempotency[-_]?[kK]ey[\"']?\s*\]?\s*(?:,|=>|:|=|\()\s*[^\n]{0,40}?"
    r"(?:UUID\.randomUUID|SecureRandom\.|uuid\.New|Guid\.NewGuid|Str::uuid|uniqid|random_bytes)"
)


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the shapes of a file."""
    if not _WORDS.search(file.text):
        return
    language = _LANGUAGES[file.path.rpartition(".")[2].lower()]
    marks = "#" if language == "ruby" else "//"
    text = without_comments(file.text[:CHARACTERS_MAX], marks)
    yield from islice(_shapes(file, language, text), FOUND_MAX)


def _shapes(file: SourceFile, language: str, text: str) -> Iterator[Smell]:
    def smell(
        match: re.Match[str], kind: str, name: str, why: str, confidence: Confidence = "high"
    ) -> Smell:
        line = text.count("\n", 0, match.start()) + 1
        return Smell(kind, file.path, line, language, name, why, confidence)

    for match in _TWO_STEPS.finditer(text):
        why = "has no expiry in the same request: a process that dies here keeps the lock for good"
        yield smell(match, "lock-without-expiry", match[0].partition("(")[0].lstrip(".->"), why)
    for match in _CONFLICT.finditer(text):
        why = "hides every conflict, on whatever unique key, not only the one that is meant"
        yield smell(match, "conflict-without-target", "ON CONFLICT DO NOTHING", why, "medium")
    for match in _SWALLOWED.finditer(text):
        why = "takes every broken constraint for a duplicate: a missing foreign key or a NULL too"
        yield smell(match, "swallowed-violation", "catch", why)
    for match in _RANDOM_KEY.finditer(text):
        why = "is drawn for each request: a repeated one carries another key, and runs again"
        yield smell(match, "random-key", "idempotency key", why)
    yield from _released(file, language, text)


def _released(file: SourceFile, language: str, text: str) -> Iterator[Smell]:
    """See a lock that is deleted by its key: also when it has become somebody else's."""
    for match in _TAKEN.finditer(text):
        key = (match["key"] or match["go"] or "").strip()
        if not re.fullmatch(r"[\w.$\"':@-]{2,60}", key):
            continue
        begins = match.end()
        ends = begins
        for _ in range(LINES_APART_MAX):
            ends = text.find("\n", ends + 1)
            if ends < 0:
                ends = len(text)
                break
        near = text[begins:ends]
        deleted = re.search(
            rf"(?:\.|->)(?:delete|del|Del|KeyDelete|unlink)(?:Async)?\s*\(\s*(?:\w+,\s*)?{re.escape(key)}",
            near,
        )
        if deleted and not _COMPARED.search(near[: deleted.end()]):
            line = text.count("\n", 0, begins + deleted.start()) + 1
            why = "deletes the lock without looking whose it is: after a pause it is another's"
            yield Smell("release-without-token", file.path, line, language, "delete", why)
