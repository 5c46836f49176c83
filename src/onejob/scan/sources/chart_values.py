"""Values of Helm charts that say how many replicas there are, and when CronJobs run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact, Setting
from onejob.scan.manifest import Node, documents
from onejob.scan.reading import SourceFile

PATTERNS = ("values.yaml", "values.yml", "values-prod*.yaml", "values.prod*.yaml")

_COUNTS = re.compile(r"replica|instances", re.IGNORECASE)
_CHOICES = re.compile(r"schedule$|cron$|suspend$|concurrencyPolicy$", re.IGNORECASE)
CHARACTERS_MAX = 80
DEPTH_MAX = 6


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the counts, and the choices about CronJobs, each under its dotted name."""
    for document in documents(file.text):
        yield from _below(file, document, "", 0)


def _below(file: SourceFile, node: Node, prefix: str, depth: int) -> Iterator[Setting]:
    for key, child in node.entries.items():
        name = f"{prefix}{key}"
        counts = child.text.isdigit() and len(child.text) < 5 and _COUNTS.search(key)
        chooses = 0 < len(child.text) <= CHARACTERS_MAX and _CHOICES.search(key)
        if counts or chooses:
            yield Setting(f"values.{name}", child.text, file.path, child.line)
        elif child.entries and depth < DEPTH_MAX:
            yield from _below(file, child, f"{name}.", depth + 1)
