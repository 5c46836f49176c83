"""A file as sources see it: bounded, decoded whatever its bytes are, never executed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from onejob.scan.facts import Note

#: More than this is data, or generated. It is skipped, and said so.
FILE_BYTES_MAX = 1_500_000
#: A script whose lines are longer than this on average was written by a program.
MINIFIED_LINE_CHARACTERS = 400
_SCRIPTS = (".js", ".mjs", ".cjs", ".css")
_PROGRAM = re.compile(r"#!\s*(?:\S*/)?([a-z]+)[\d.]*(?:\s+(?:-S\s+)?([a-z]+))?")


@dataclass(frozen=True)
class SourceFile:
    """One file: ``path`` is relative to the scanned directory, with forward slashes."""

    path: str
    text: str
    settings: tuple[str, ...] = field(default=())
    """The house's own guard names, from the configuration."""

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines; ``lines[0]`` is line 1."""
        return self.text.splitlines()

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def program(self) -> str:
        """Return the interpreter of a ``#!`` line: ``sh``, ``python``; "" where there is none."""
        return program_of(self.text)


def program_of(text: str) -> str:
    """Return the interpreter that a first line names, without path and version."""
    match = _PROGRAM.match(text[:200])
    if match is None:
        return ""
    found = match[2] if match[1] == "env" and match[2] else match[1]
    return "sh" if found in ("sh", "bash", "dash", "ash", "zsh", "ksh") else found


def read_file(root: Path, path: str) -> SourceFile | Note | None:
    """Read one file; None for one that holds nothing to read, a note for one that can't be read."""
    try:
        with (root / path).open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        return Note(path, f"cannot be read: {error.strerror or type(error).__name__}")
    if len(data) > FILE_BYTES_MAX:
        return Note(path, f"larger than {FILE_BYTES_MAX // 1000} kB: skipped")
    text = decoded(data)
    if text is None or _minified(path, text):
        return None
    return SourceFile(path, text)


def decoded(data: bytes) -> str | None:
    """Return the text, whatever its encoding; None for what is no text."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", errors="replace")
    elif b"\0" in data[:8192]:
        return None
    else:
        text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _minified(path: str, text: str) -> bool:
    if not path.endswith(_SCRIPTS) or len(text) < 4_000:
        return False
    return len(text) / (text.count("\n") + 1) > MINIFIED_LINE_CHARACTERS
