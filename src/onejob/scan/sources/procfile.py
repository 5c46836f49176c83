"""Procfiles, and the app specifications of platforms that say the same in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact
from onejob.scan.launching import Place, launches
from onejob.scan.reading import SourceFile

PATTERNS = ("procfile", "procfile.*", "*.procfile")

_LINE = re.compile(r"([A-Za-z][\w-]*)\s*:\s*(\S.*)")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return one launch for each process type; release commands start nothing that stays."""
    for number, text in enumerate(file.lines, start=1):
        match = _LINE.match(text)
        if match and match[1] != "release":
            place = Place(file.path, number, "procfile", match[1], (match[1],))
            yield from launches(match[2], place)
