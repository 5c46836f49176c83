"""Go: tickers and loops, robfig/cron, gocron, asynq, River; locks and leader election."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact
from onejob.scan.reading import SourceFile
from onejob.scan.sources.go.libraries import functions, libraries
from onejob.scan.sources.go.loops import loops
from onejob.scan.sources.go.unit import Unit
from onejob.scan.syntax import limited

PATTERNS = ("*.go",)

_LIBRARIES = re.compile(
    r"AddFunc|AddJob|[cC]ron|MustAdd|RegisterJob|AddTask|AddNamedFunc|gocron|hibiken/asynq|riverqueue|robfig/cron|go-quartz|scheduler"
)
_LOOPS = re.compile(
    r"time\.(?:Tick|NewTicker|NewTimer|Sleep|After)\(|\bwait\.\w*(?:Until|Forever)\w*\("
)
_GUARDS = re.compile(
    r"skip\s+locked|advisory_|SetNX|redsync|redislock|OnStartedLeading|RowsAffected|IsLeader"
    r"|GET_LOCK",
    re.IGNORECASE,
)
_GENERATED = re.compile(r"(?m)^// Code generated .* DO NOT EDIT\.$")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return what a Go file starts by time, and what in it guards."""
    text = file.text
    libraries_too, loops_too = _LIBRARIES.search(text), _LOOPS.search(text)
    guards_too = _GUARDS.search(text)
    if not (libraries_too or loops_too or guards_too) or _GENERATED.search(text[:4_000]):
        return
    unit = Unit(file)
    if libraries_too:
        yield from limited(libraries(unit), file.path)
    if loops_too:
        yield from limited(loops(unit), file.path)
    if guards_too:
        yield from functions(unit)
