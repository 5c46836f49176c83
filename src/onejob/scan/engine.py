"""A scan from start to end: walk, read, take facts, join, judge. Nothing that it reads is run.

1. ``walk`` lists the files that are worth reading.
2. Each file is read and handed to the sources that take it; they give facts. That is done by a
   process of its own, which may be lost; a large tree is shared out among several (``crew.py``).
3. ``join`` puts the facts of all files together and judges.
4. Comments that allow a finding take it off the list.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onejob.scan import wire
from onejob.scan.crew import Taken, read
from onejob.scan.facts import Fact, Note
from onejob.scan.finding import UNGUARDED, Finding
from onejob.scan.join import join, notes_of
from onejob.scan.reading import SourceFile, program_of, read_file
from onejob.scan.registry import rule_for
from onejob.scan.sources import all_sources
from onejob.scan.suppress import Allowance, allowances, allowed
from onejob.scan.walk import walk

#: Below this many bytes a second process costs more time than it saves.
PARALLEL_BYTES = 3_000_000
CHUNK_BYTES = 600_000
READERS_MAX = 8
#: Whoever started a reader ends it long before; a reader that has lost its scan ends itself.
ORPHAN_SECONDS_MAX = 120
#: Of one file.
FACTS_MAX = 20_000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What a scan is asked for beyond its directory."""

    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    """Codes of rules; empty means all."""
    house_guards: tuple[str, ...] = ()


EVERYTHING = Options()


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found, in the order of the files."""

    findings: tuple[Finding, ...]
    notes: tuple[Note, ...]
    files: int
    allowed: int = 0
    """Findings that a comment allows; they are not in ``findings``."""

    @property
    def triggers(self) -> int:
        """Count what starts background work."""
        return sum(finding.role == "trigger" for finding in self.findings)

    @property
    def unguarded(self) -> int:
        """Count the triggers that N replicas run N times."""
        return sum(f.role == "trigger" and f.verdict in UNGUARDED for f in self.findings)


def scan(root: Path, options: Options = EVERYTHING, progress: Progress | None = None) -> Scan:
    """Scan a directory, or one file."""
    paths, notes = _listed(root, options.exclude)
    root = root.parent if root.is_file() else root
    facts: list[Fact] = list(notes)
    comments: dict[tuple[str, int], Allowance] = {}
    done = 0
    for taken in _take(root, paths):
        facts += taken.facts
        comments.update({(each.path, each.line): each for each in taken.comments})
        done += taken.files
        if progress is not None:
            progress(done, len(paths))
    findings = join(facts, options.house_guards)
    if options.only:
        findings = [finding for finding in findings if finding.rule in options.only]
    kept = [f for f in findings if not allowed(f, rule_for(f.kind).name, comments)]
    mute = [
        Note(each.path, "allows without a reason: write one after a colon", each.line)
        for each in comments.values()
        if not each.reason
    ]
    return Scan(tuple(kept), (*notes_of(facts), *mute), len(paths), len(findings) - len(kept))


def _listed(root: Path, exclude: tuple[str, ...]) -> tuple[list[str], list[Note]]:
    paths: list[str] = []
    notes: list[Note] = []
    if root.is_file():
        return [root.name], notes
    for each in walk(root, exclude):
        if isinstance(each, Note):
            notes.append(each)
        else:
            paths.append(each)
    return paths, notes


def _take(root: Path, paths: list[str]) -> Iterator[Taken]:
    sized = [(path, _size(root / path)) for path in paths]
    chunks = list(_chunks(sized))
    large = sum(size for _, size in sized) >= PARALLEL_BYTES
    yield from read(root, chunks, min(_cores(), READERS_MAX, len(chunks)) if large else 1)


def take(root: Path, paths: Sequence[str]) -> Taken:
    """Read files and let the sources speak. Runs in whichever process."""
    facts: list[Fact] = []
    comments: list[Allowance] = []
    for path in paths:
        file = read_file(root, path) if _wanted(root, path) else None
        if isinstance(file, Note):
            facts.append(file)
        elif file is not None:
            facts += facts_of(file)
            comments += allowances(path, file.text)
    return Taken(tuple(facts), tuple(comments), len(paths))


def serve() -> None:
    """Answer chunks until the input ends: what a reading process does."""
    out = sys.stdout.buffer
    # What a parser may print belongs nowhere near the answers.
    sys.stdout = sys.stderr
    for line in sys.stdin.buffer:
        root, *paths = wire.decode(line)
        for path in paths:
            _alarm(ORPHAN_SECONDS_MAX)
            taken = take(Path(root), [path])
            _alarm(0)
            out.write(wire.encode([taken.facts, taken.comments]).encode() + b"\n")
            out.flush()


def _alarm(seconds: int) -> None:
    """Let the system end this process in so many seconds, native code and all; 0 for never."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def facts_of(file: SourceFile) -> list[Fact]:
    """Return what every source that takes this file says about it."""
    facts: list[Fact] = []
    path, program = file.path.lower(), file.program
    for source in all_sources():
        if source.takes(path, program):
            try:
                for fact in source.read(file):
                    facts.append(fact)
                    if len(facts) >= FACTS_MAX:
                        facts.append(Note(file.path, f"more than {FACTS_MAX} facts: the rest left"))
                        return facts
            except (RecursionError, MemoryError):
                facts.append(Note(file.path, f"nested too deeply for the {source.name} reader"))
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            # A parser in native code panics with what is no Exception: no odd file ends the scan.
            except BaseException as error:  # noqa: BLE001
                what = type(error).__name__
                facts.append(Note(file.path, f"the {source.name} reader stumbled ({what})"))
    return facts


def _wanted(root: Path, path: str) -> bool:
    """Decide by name; a file without an extension by its first line."""
    low = path.lower()
    program = ""
    if "." not in low.rpartition("/")[2]:
        try:
            with (root / path).open("rb") as opened:
                program = program_of(opened.read(200).decode("latin-1"))
        except OSError:
            return False
    return any(source.takes(low, program) for source in all_sources())


def _chunks(sized: list[tuple[str, int]]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for path, each in sized:
        chunk.append(path)
        size += each
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
