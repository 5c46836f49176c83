"""Python, by its own parser. Nothing is imported or run."""

from __future__ import annotations

from collections.abc import Iterable

from onejob.scan.facts import Fact
from onejob.scan.reading import SourceFile

PATTERNS = ("*.py", "*.pyw", "#!python")


def read(file: SourceFile) -> Iterable[Fact]:
    """State what a Python file triggers, launches and guards."""
    return ()
