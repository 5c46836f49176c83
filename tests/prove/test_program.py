"""Programs whose weakness is known must be found broken, with the history; safe ones must hold."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from onejob.errors import UsageError
from onejob.prove.program import faults
from onejob.prove.program import search as search_module
from onejob.prove.program.effects import Busy, FromCommand, InDatabase, InFile, Unreadable
from onejob.prove.program.faults import Kind, Plan, Point, Strike
from onejob.prove.program.judge import Verdict
from onejob.prove.program.search import Asked, Tried, search

#: Three invoices, each of which takes a moment.
HEAD = """
import os, sqlite3, sys, time
def emit(key):
    with open("effects", "a") as file:
        file.write(key + "\\n")
def done(key):
    return os.path.exists("effects") and key in open("effects").read().split()
KEYS = ["invoice-1", "invoice-2", "invoice-3"]
"""

NAIVE = "for key in KEYS: emit(key); time.sleep(0.05)"

CHECK_THEN_INSERT = """
for key in KEYS:
    if not done(key):
        time.sleep(0.05)
        emit(key)
"""

MARKED_BEFORE = """
for key in KEYS:
    if os.path.exists(key): continue
    open(key, "w").close()
    time.sleep(0.05)
    emit(key)
"""

#: A lock that is taken over when it is old, and whose holder is not told.
EXPIRING_LOCK = """
try:
    if time.time() - os.stat("lock").st_mtime > 0.5: os.remove("lock")
except FileNotFoundError: pass
try: os.close(os.open("lock", os.O_CREAT | os.O_EXCL))
except FileExistsError: sys.exit(1)
for key in KEYS:
    if not done(key):
        time.sleep(0.05)
        emit(key)
os.remove("lock")
"""

UNIQUE_KEY = """
db = sqlite3.connect("shop.db", timeout=30, isolation_level=None)
db.execute("CREATE TABLE IF NOT EXISTS invoice (id TEXT UNIQUE)")
for key in KEYS:
    db.execute("INSERT INTO invoice VALUES (?) ON CONFLICT (id) DO NOTHING", [key])
    time.sleep(0.02)
"""

#: Once a day by onejob: no effect of it is lost or doubled, though it is no program of ours.
LOCKED_AND_LOOKED_UP = """
import fcntl
lock = open("lock", "w"); fcntl.flock(lock, fcntl.LOCK_EX)
for key in KEYS:
    if not done(key): emit(key)
    time.sleep(0.02)
"""


def tried(
    folder: Path, body: str, *, budget: float = 20.0, freeze: float | None = None, **more: object
) -> Tried:
    """Try a program of these lines."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "job.py").write_text(HEAD + body)
    given: dict[str, object] = {"effects": InFile("effects"), "patience": 20.0, **more}
    asked = Asked([sys.executable, "job.py"], folder=home, budget=budget, freeze=freeze, **given)  # type: ignore[arg-type]
    return search(asked, progress=lambda share, played: None)


def test_a_naive_job_is_found_by_one_kill(tmp_path: Path) -> None:
    found = tried(tmp_path, NAIVE)

    assert found.verdict is Verdict.VIOLATED
    assert found.worst is not None
    assert [strike.kind for strike in found.worst.plan.strikes] == [Kind.KILL]
    assert "invoice-1" in found.worst.found.doubled
    assert [e.what for e in found.worst.history if "killed" in e.what] == ["is killed"]


def test_checking_before_inserting_is_found_by_copies_side_by_side(tmp_path: Path) -> None:
    found = tried(tmp_path, CHECK_THEN_INSERT)

    assert found.verdict is Verdict.VIOLATED
    assert found.worst is not None
    assert found.worst.found.doubled
    assert found.worst.found.lost == ()


def test_marking_before_the_work_is_found_as_lost(tmp_path: Path) -> None:
    found = tried(tmp_path, MARKED_BEFORE)

    assert found.verdict is Verdict.VIOLATED
    assert found.worst is not None
    assert found.worst.found.lost
    assert found.worst.found.doubled == ()


@pytest.mark.slow
def test_a_lock_that_expires_is_found_by_a_freeze(tmp_path: Path) -> None:
    """The rival is let in when the lock is old, and the frozen holder goes on."""
    found = tried(tmp_path, EXPIRING_LOCK, budget=60.0, freeze=1.0)

    assert found.verdict is Verdict.VIOLATED
    assert found.worst is not None
    assert any(strike.kind is Kind.FREEZE for strike in found.worst.plan.strikes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "more"),
    [
        (LOCKED_AND_LOOKED_UP, {}),
        (UNIQUE_KEY, {"effects": InDatabase("sqlite:///shop.db", "SELECT id FROM invoice")}),
    ],
    ids=["lock and look-up", "unique key"],
)
def test_a_safe_job_holds(tmp_path: Path, body: str, more: dict[str, object]) -> None:
    found = tried(tmp_path, body, budget=6.0, **more)

    assert found.verdict is Verdict.HELD, found.worst
    assert len(found.plays) > 3
    assert found.worst is None


def test_a_program_that_gives_up_and_says_so_is_unknown(tmp_path: Path) -> None:
    body = "if os.path.exists('begun'): sys.exit(3)\nopen('begun', 'w').close()\n" + NAIVE
    plan = Plan(strikes=(Strike(Kind.KILL, Point(1, 0.0)),))

    found = tried(tmp_path, body, only=plan)

    assert found.verdict is Verdict.UNKNOWN
    assert found.worst is not None
    assert found.worst.found.lost


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("pass", "no effect to be seen"),
        ("sys.exit('no licence')", "no licence"),
        ("emit(str(time.time()))", "two runs without a fault differ"),
        ("emit('a'); emit('a')", "is there 2 times"),
    ],
)
def test_without_a_yardstick_nothing_is_said(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        tried(tmp_path, body)


def test_a_job_that_never_ends_is_ended(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not end well"):
        tried(tmp_path, "emit('a'); time.sleep(60)", patience=0.5)


def test_what_leaves_its_group_is_ended_with_the_play(tmp_path: Path) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("the system does not show a process's environment")
    pids = tmp_path / "pids"
    body = f"""
if os.fork() == 0:
    os.setsid()
    with open({str(pids)!r}, "a") as file: file.write(str(os.getpid()) + "\\n")
    time.sleep(600)
    os._exit(0)
while not os.path.exists({str(pids)!r}): time.sleep(0.01)
emit("a")
"""
    tried(tmp_path, body, only=Plan(again=True))

    left = {int(line) for line in pids.read_text().split()}
    assert len(left) >= 3
    end = time.monotonic() + 20
    while any(_runs(pid) for pid in left) and time.monotonic() < end:
        time.sleep(0.02)
    assert [pid for pid in left if _runs(pid)] == []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_folder_is_left_as_it_was(tmp_path: Path) -> None:
    tried(tmp_path, NAIVE, budget=1.0)

    assert sorted(os.listdir(tmp_path / "home")) == ["job.py"]


def test_a_plan_is_written_and_read_back() -> None:
    plan = Plan(2, (Strike(Kind.FREEZE, Point(3, 0.25)), Strike(Kind.KILL, Point(0, 0.5))), True)

    assert Plan.read(plan.written()) == plan
    with pytest.raises(UsageError, match="--save"):
        Plan.read({"copies": 1})


def test_plans_come_from_the_seed_alone() -> None:
    first, again, other = (faults.drawn(seed, 3) for seed in (7, 7, 8))
    some = [next(first) for _ in range(20)]

    assert some == [next(again) for _ in range(20)]
    assert some != [next(other) for _ in range(20)]


def test_each_fault_is_tried_by_itself_first_at_each_effect() -> None:
    plans = list(faults.singles(2))

    assert Plan(strikes=(Strike(Kind.KILL, Point(1, 0.0)),)) == plans[0]
    assert {kind for plan in plans for kind in (s.kind for s in plan.strikes)} == set(Kind)
    assert max(len(plan.strikes) for plan in plans) == 1
    assert {plan.name for plan in plans} >= {"2 at once", "3 at once", "again"}


def test_effects_are_read_from_lines_rows_and_commands(tmp_path: Path) -> None:
    (tmp_path / "effects").write_text("a\nb\na\nhalf")

    assert InFile("effects").read(tmp_path) == Counter({"a": 2, "b": 1})
    assert InFile("none").read(tmp_path) == Counter()
    assert FromCommand("sort effects | uniq").read(tmp_path) == Counter("ab") + Counter(["half"])
    assert InDatabase("sqlite:///none.db", "SELECT 1").read(tmp_path) == Counter()
    with pytest.raises(Unreadable, match="exits 3"):
        FromCommand("echo no; exit 3").read(tmp_path)


def test_rows_of_postgresql_are_effects(postgres_url: str, tmp_path: Path) -> None:
    source = InDatabase(postgres_url, "SELECT * FROM (VALUES (1, 'a'), (1, 'a')) AS t")

    assert source.read(tmp_path) == Counter({'[1, "a"]': 2})
    assert InDatabase(postgres_url, "SELECT * FROM not_there").read(tmp_path) == Counter()
    with pytest.raises(Unreadable, match="syntax"):
        InDatabase(postgres_url, "SELEKT").read(tmp_path)


def test_a_database_that_a_copy_holds_is_read_when_it_is_let_go(tmp_path: Path) -> None:
    """A copy that is frozen in its commit keeps readers out: that is no end of the trial."""
    holder = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    holder.execute("CREATE TABLE invoice (id TEXT)")
    holder.execute("BEGIN EXCLUSIVE")
    source = InDatabase("sqlite:///shop.db", "SELECT id FROM invoice")

    with pytest.raises(Busy):
        source.read(tmp_path)
    holder.execute("ROLLBACK")
    holder.close()

    assert source.read(tmp_path) == Counter()


def test_a_reset_that_does_not_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "RESET_SECONDS", 0.2)

    with pytest.raises(UsageError, match="--reset has not ended"):
        tried(tmp_path, NAIVE, reset="sleep 60")
