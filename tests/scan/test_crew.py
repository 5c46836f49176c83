"""Files are read by processes that may be lost, and no text takes long or ends a scan."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from onejob.scan import crew, engine, scan, wire
from onejob.scan.facts import Fact, Note, Trigger
from onejob.scan.reading import SourceFile
from onejob.scan.sources import all_sources
from onejob.scan.walk import walk

JOB = "import schedule\nschedule.every(5).minutes.do(work)\n"
HANG = "every " * 2_000
BLANK = "schedule\n" + " " * 400_000
LINES = "schedule\n" + "\n" * 100_000
BRACES = "schedule = '" + "{{" * 50_000


def write(root: Path, *names: str, text: str = JOB) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_a_large_tree_is_shared_out_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, *(f"p{n}/jobs.py" for n in range(40)), text=JOB + "# padding\n" * 40)
    alone = scan(tmp_path)
    monkeypatch.setattr(engine, "PARALLEL_BYTES", 1)
    monkeypatch.setattr(engine, "CHUNK_BYTES", 2_000)
    monkeypatch.setattr(engine, "_cores", lambda: 2)

    assert scan(tmp_path) == alone
    assert alone.triggers == 40


@pytest.mark.slow
def test_a_reader_that_dies_costs_one_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "good.py")
    write(tmp_path, "bad.py", text="import schedule\n")
    deadly = (
        "import os\nfrom onejob.scan import engine\n"
        "facts = engine.facts_of\n"
        "engine.facts_of = lambda f: os._exit(3) if f.path == 'bad.py' else facts(f)\n"
        "engine.serve()\n"
    )
    monkeypatch.setattr(crew, "_MAIN", deadly)

    taken = [*crew.read(tmp_path, [["bad.py", "good.py"]], 1)]

    facts = [fact for each in taken for fact in each.facts]
    assert sum(each.files for each in taken) == 2
    assert [f.path for f in facts if isinstance(f, Note)] == ["bad.py"]
    assert [f.path for f in facts if isinstance(f, Trigger)] == ["good.py"]


@pytest.mark.slow
def test_a_reader_imports_nothing_from_the_directory_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G01: a repository may hold a json.py of its own."""
    trap = f"open({str(tmp_path / 'sprung')!r}, 'w').close()\n"
    write(tmp_path, "json.py", "yaml.py", "ast_grep_py.py", "onejob.py", text=trap)
    write(tmp_path, "jobs.py")
    monkeypatch.chdir(tmp_path)

    taken = [*crew.read(Path(), [["jobs.py"]], 1)]

    assert any(isinstance(fact, Trigger) for each in taken for fact in each.facts)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.rb", HANG), ("x.tf", BLANK), ("x.tf", LINES), ("x.py", BRACES)],
    ids=["calls in calls", "blanks", "empty lines", "braces"],
)
def test_text_that_took_minutes_takes_no_time(name: str, text: str) -> None:
    before = time.process_time()

    engine.facts_of(SourceFile(name, text))

    assert time.process_time() - before < 5


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_a_file_that_hangs_its_reader_costs_one_note_in_a_small_tree_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.py", "hangs.py", "kills.py", "z.py")
    odd = (
        "import os, time\n"
        "from onejob.scan import engine\n"
        "facts = engine.facts_of\n"
        "def odd(file):\n"
        "    if file.path == 'hangs.py': time.sleep(60)\n"
        "    if file.path == 'kills.py': os._exit(3)\n"
        "    return facts(file)\n"
        "engine.facts_of = odd\n"
        "engine.serve()\n"
    )
    monkeypatch.setattr(crew, "_MAIN", odd)
    monkeypatch.setattr(crew, "FILE_SECONDS_MAX", 1.5)

    found = scan(tmp_path)

    assert [f.path for f in found.findings] == ["a.py", "z.py"]
    assert [note.path for note in found.notes] == ["hangs.py", "kills.py"]


def test_a_small_tree_gives_in_a_process_what_it_gives_here() -> None:
    tree = Path(__file__).parent / "fixtures/onejob/guarded.tree"

    chunks = [[*map(str, walk(tree))]]
    here = engine.take(tree, chunks[0])
    there = [*crew.read(tree, chunks, 1)]

    assert [fact for taken in there for fact in taken.facts] == [*here.facts]


def test_a_parser_that_panics_ends_in_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """What a parser in Rust raises; no Exception."""

    def panics(file: SourceFile) -> list[Fact]:
        raise PanicException("index out of bounds")

    source = replace(all_sources()[0], read=panics)
    monkeypatch.setattr(source.__class__, "takes", lambda *_: True)
    monkeypatch.setattr(engine, "all_sources", lambda: (source,))

    found = engine.facts_of(SourceFile("x.go", ""))

    assert found == [Note("x.go", f"the {source.name} reader stumbled (PanicException)")]


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_whoever_ends_a_scan_is_heard(
    monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    def ended(file: SourceFile) -> list[Fact]:
        raise end

    source = replace(all_sources()[0], read=ended)
    monkeypatch.setattr(engine, "all_sources", lambda: (source,))
    monkeypatch.setattr(source.__class__, "takes", lambda *_: True)

    with pytest.raises(end):
        engine.facts_of(SourceFile("x.go", ""))


@pytest.mark.slow
def test_a_reader_that_has_lost_its_scan_ends_by_itself(tmp_path: Path) -> None:
    write(tmp_path, "hangs.py")
    program = (
        "import time\n"
        "from onejob.scan import engine\n"
        "engine.ORPHAN_SECONDS_MAX = 1\n"
        "engine.facts_of = lambda file: time.sleep(60)\n"
        "engine.serve()\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program],
        input=wire.encode([str(tmp_path), "hangs.py"]).encode() + b"\n",
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (-signal.SIGALRM, b"")
