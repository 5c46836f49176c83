"""Values of Helm charts that say how many replicas there are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact, Setting
from onejob.scan.manifest import Node, documents
from onejob.scan.reading import SourceFile

PATTERNS = ("values.yaml", "values.yml", "values-prod*.yaml", "values.prod*.yaml")

_COUNTS = re.compile(r"replica|instances", re.IGNORECASE)
DEPTH_MAX = 6


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the counts, each under its dotted name."""
    if not _COUNTS.search(file.text):
        return
    for document in documents(file.text):
        yield from _below(file, document, "", 0)


def _below(file: SourceFile, node: Node, prefix: str, depth: int) -> Iterator[Setting]:
    for key, child in node.entries.items():
        name = f"{prefix}{key}"
        if child.text.isdigit() and _COUNTS.search(key) and len(child.text) < 5:
            yield Setting(f"values.{name}", child.text, file.path, child.line)
        elif child.entries and depth < DEPTH_MAX:
            yield from _below(file, child, f"{name}.", depth + 1)
