"""Ruby: rufus-scheduler, whenever, clockwork, good_job, sidekiq-cron in code, loops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact
from onejob.scan.reading import SourceFile
from onejob.scan.sources.ruby.script import Script
from onejob.scan.sources.ruby.triggers import triggers
from onejob.scan.syntax import limited

PATTERNS = ("*.rb", "*.ru", "#!ruby")

_WORDS = re.compile(
    r"\bevery\b|\bcron\b|scheduler|\bsleep\b|TimerTask|\bdaily\b|advisory_lock|skip\s+locked|redlock"
    r"|set_schedule|\.synchronize",
    re.IGNORECASE,
)


def read(file: SourceFile) -> Iterator[Fact]:
    """Return what a Ruby file starts by time."""
    if _WORDS.search(file.text):
        yield from limited(triggers(Script(file)), file.path)
