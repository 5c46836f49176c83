"""``onejob once`` killed, frozen, overtaken and asked to end, with the program that it runs."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onejob.commands import claims, views
from onejob.commands.claims import Won
from onejob.core.time import DAY
from onejob.runtime.held import LATE

from .conftest import Shop
from .test_once import effects, row, told

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 30.0

#: Begins, tells its pid and that of a child of its own, and stays: two processes to be ended.
STAYS = 'sleep 60 & echo $$ $! >pids.new; mv pids.new "$1"; echo ran >>effects; wait; sleep 60'

#: The same, and does not end when it is asked to, but notes it.
STUBBORN = f"trap 'echo asked >>asked' TERM; {STAYS}; sleep 60"


#: Whoever runs the tests may ignore what a terminal sends, as nohup and "&" do, and that is
#: inherited; a shell cannot even trap what it was born to ignore.
MAIN = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
from onejob.cli import main
main()
"""


@contextmanager
def once(shop: Shop, mark: str, *options: str, script: str = STAYS) -> Iterator[Any]:
    """Start ``onejob once`` with a program that stays; nothing of it outlives the block."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", MAIN),
            *("once", "mail", "--key", "k", "--ttl", "2s", "--grace", "300ms", "--json"),
            *(*options, "--", "sh", "-c", script, "sh", mark),
        ],
        cwd=shop.directory,
        env={**os.environ, **shop.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_SECONDS)
        for pid in pids(shop, mark):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        for stream in (process.stdout, process.stderr):
            stream.close()


def pids(shop: Shop, mark: str) -> list[int]:
    file = shop.directory / mark
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return answer


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie that nobody has collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def begun(shop: Shop, mark: str) -> list[int]:
    """Wait until the program runs; return its processes."""
    found: list[int] = until(lambda: pids(shop, mark), "the program has begun")
    return found


def all_ended(processes: list[int]) -> Callable[[], bool]:
    return lambda: not any(map(alive, processes))


def assert_gone_before_the_lease(shop: Shop, program: list[int]) -> None:
    """Look again and again; never is the lease over, and then somebody of the program there."""
    while True:
        lapsed, ended = row(shop, "k").lapsed, all_ended(program)()
        assert ended or not lapsed, "somebody else may have begun beside it"
        if ended:
            return
        time.sleep(0.02)


def overtake(shop: Shop) -> None:
    """Take the key over as another machine would after a lease, by a clock that is ahead."""
    store = shop.app.store
    ahead = store.run(views.clock()) + DAY
    taken = store.run(
        claims.take(claims.PERIOD, "mail", "k", owner="other:1/x", lease=DAY, keep=DAY, now=ahead)
    )
    assert isinstance(taken, Won)


def test_a_death_takes_the_program_along_and_another_takes_over(shop: Shop) -> None:
    """B07: killed, it leaves nobody behind; its claim lapses, and is told of."""
    with once(shop, "first") as first:
        program = begun(shop, "first")
        beside = shop.finished("once", "mail", "--key", "k", "--json", "--", "false")
        first.kill()
        until(all_ended(program), "the program has ended with it", seconds=5)
        until(lambda: row(shop, "k").lapsed, "its claim has lapsed", seconds=10)
        again = shop.finished("once", "mail", "--key", "k", "--json", "--", "true")

    assert told(beside[2])["why"].startswith("in progress by ")
    assert again[0] == 0
    assert told(again[2])["ran"] is True
    assert row(shop, "k").attempt == 2
    kinds = [event.kind for event in shop.app.store.run(views.events(schedule="mail"))]
    assert kinds == ["period.lost", "period.abandoned"]


def test_one_that_is_frozen_past_its_lease_runs_no_longer_than_the_lease(shop: Shop) -> None:
    """A13, B03: its program is ended by its lease's own end; thawed, it says that it has lost."""
    with once(shop, "first") as first:
        program = begun(shop, "first")
        claimed_until = row(shop, "k").until
        until(lambda: row(shop, "k").until > claimed_until, "it has come to renew its claim")
        first.send_signal(signal.SIGSTOP)
        until(all_ended(program), "the program has ended without it", seconds=10)
        until(lambda: row(shop, "k").lapsed, "its claim has lapsed", seconds=10)
        again = shop.finished("once", "mail", "--key", "k", "--json", "--", "true")
        first.send_signal(signal.SIGCONT)
        _, err = first.communicate(timeout=PATIENCE_SECONDS)

    assert (again[0], told(again[2])["ran"]) == (0, True)
    assert (first.returncode, told(err)["exit"]) == (75, 75)
    assert told(err)["ran"] is True
    assert row(shop, "k").token == told(again[2])["token"] > told(err)["token"]
    assert row(shop, "k").state == "done"


def test_a_program_whose_lease_is_lost_is_asked_to_end_and_then_ended(
    sqlite_shop: Shop,
) -> None:
    """P6: also one that does not want to, and what it has started."""
    shop = sqlite_shop
    with once(shop, "first", script=STUBBORN) as first:
        program = begun(shop, "first")
        overtake(shop)
        _, err = first.communicate(timeout=PATIENCE_SECONDS)

    assert first.returncode == 75
    assert told(err)["why"].startswith("the store has it no longer as ours")
    assert (shop.directory / "asked").read_text() == "asked\n"
    assert all_ended(program)()
    assert (row(shop, "k").owner, row(shop, "k").state) == ("other:1/x", "claimed")


def test_a_stubborn_program_is_gone_before_the_lease_of_a_frozen_one_is(sqlite_shop: Shop) -> None:
    """P6, A13: asked in time to end, and killed in time."""
    shop = sqlite_shop
    options = ("--ttl", "3s", "--grace", "20s")
    with once(shop, "first", *options, script=STUBBORN) as first:
        program = begun(shop, "first")
        first.send_signal(signal.SIGSTOP)
        assert_gone_before_the_lease(shop, program)

    assert (shop.directory / "asked").read_text() == "asked\n"


def test_a_stubborn_program_is_gone_before_the_lease_that_cannot_be_renewed_is(
    sqlite_shop: Shop,
) -> None:
    """P6: the store is away, and its holder watches."""
    shop = sqlite_shop
    options = ("--ttl", "3s", "--grace", "20s")
    with once(shop, "first", *options, script=STUBBORN) as first:
        program = begun(shop, "first")
        file = shop.url.removeprefix("sqlite:///")
        with sqlite3.connect(file, isolation_level=None) as away:
            away.execute("BEGIN IMMEDIATE")
            assert_gone_before_the_lease(shop, program)
        away.close()
        _, err = first.communicate(timeout=PATIENCE_SECONDS)

    assert (shop.directory / "asked").read_text() == "asked\n"
    assert first.returncode == 75
    assert told(err)["why"] == LATE


def test_one_that_ends_well_after_it_was_overtaken_says_that_it_has_lost(
    sqlite_shop: Shop,
) -> None:
    """C01: before anything has told it so."""
    shop = sqlite_shop
    quick = 'echo 1 >"$1"; while [ ! -e go ]; do sleep 0.01; done'
    with once(shop, "first", "--ttl", "60s", script=quick) as first:
        until(lambda: (shop.directory / "first").exists(), "the program has begun")
        overtake(shop)
        (shop.directory / "go").touch()
        _, err = first.communicate(timeout=PATIENCE_SECONDS)

    assert (first.returncode, told(err)["exit"]) == (75, 75)
    assert row(shop, "k").owner == "other:1/x"


@pytest.mark.parametrize(
    ("trap", "code"), [("", 143), ("trap 'exit 5' TERM; ", 5), ("trap 'exit 0' TERM; ", 0)]
)
def test_one_that_is_asked_to_end_asks_its_program_and_ends_as_that_does(
    trap: str, code: int, sqlite_shop: Shop
) -> None:
    """F13: work left is no success, and the key is free for another."""
    shop = sqlite_shop
    with once(shop, "first", script=trap + STAYS) as first:
        program = begun(shop, "first")
        first.terminate()
        first.communicate(timeout=PATIENCE_SECONDS)

    assert first.returncode == code
    assert row(shop, "k").state == ("free" if code else "done")
    assert all_ended(program)()


def test_a_program_that_is_stopped_ends_when_it_is_asked_to(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    with once(shop, "first", script='echo $$ >pid; mv pid "$1"; kill -STOP $$; sleep 60') as first:
        [pid] = begun(shop, "first")
        stat = Path(f"/proc/{pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
        first.terminate()
        first.communicate(timeout=PATIENCE_SECONDS)

    assert first.returncode == 128 + signal.SIGTERM


def test_other_signals_reach_the_program(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    script = "trap 'echo usr1 >>heard' USR1; trap 'exit 0' HUP; " + STAYS
    with once(shop, "first", script=script) as first:
        begun(shop, "first")
        first.send_signal(signal.SIGUSR1)
        until(lambda: (shop.directory / "heard").exists(), "the program has heard")
        until(lambda: effects(shop), "it is at its work")
        first.send_signal(signal.SIGHUP)
        first.communicate(timeout=PATIENCE_SECONDS)

    assert first.returncode == 0
    assert effects(shop) == 1


def test_a_signal_that_comes_while_the_program_is_started_reaches_it(tmp_path: Path) -> None:
    started = (
        "import os, signal\n"
        "from onejob.cli.child import Child, Grip\n"
        "from onejob.cli.leash import Leash\n"
        "child = Child(Leash.forked(), grace=0)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "grip = Grip(lambda: '', lambda: 2**62, 10**9)\n"
        "print(child.run(['sleep', '20'], os.environ, grip).code)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", started],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert ran.stdout == f"{128 + signal.SIGUSR1}\n", ran.stderr


def test_work_that_outlasts_its_lease_keeps_it(sqlite_shop: Shop) -> None:
    """A13, A22: renewed for as long as it takes."""
    shop = sqlite_shop
    with once(
        shop, "first", "--ttl", "1s", script='echo 1 >"$1"; sleep 1.6; echo ran >>effects'
    ) as first:
        until(lambda: (shop.directory / "first").exists(), "the program has begun")
        won = row(shop, "k").until
        until(lambda: row(shop, "k").until > won + 500_000, "it has been renewed")
        beside = shop.finished("once", "mail", "--key", "k", "--json", "--", "false")
        first.communicate(timeout=PATIENCE_SECONDS)

    assert (beside[0], told(beside[2])["ran"]) == (0, False)
    assert (first.returncode, effects(shop), row(shop, "k").state) == (0, 1, "done")


def test_a_lock_that_is_broken_stops_its_program(sqlite_shop: Shop) -> None:
    """Without a period or key it is a named lock that is lost."""
    shop = sqlite_shop
    command = [sys.executable, "-c", MAIN]
    process = subprocess.Popen(
        [*command, "once", "mail", "--ttl", "1s", "--json", "--", "sh", "-c", STAYS, "sh", "first"],
        cwd=shop.directory,
        env={**os.environ, **shop.environment},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        program = begun(shop, "first")
        shop.app.locks.break_("mail", reason="a test")
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()

    assert (process.returncode, told(err)["exit"]) == (75, 75)
    assert all_ended(program)()


def test_at_a_terminal_ctrl_c_reaches_the_program(sqlite_shop: Shop) -> None:
    """It stays in the process group that the terminal knows, and can read from it."""
    shop = sqlite_shop
    script = 'read line; echo "got $line"; trap "exit 9" INT; echo ready; sleep 60 & wait'
    typed = (
        "import os, pty, sys\n"
        "pid, fd = pty.fork()\n"
        "if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])\n"
        "seen = b''\n"
        "os.write(fd, b'hello\\n')\n"
        "while b'ready' not in seen: seen += os.read(fd, 1024)\n"
        "os.write(fd, b'\\x03')\n"
        "print(b'got hello' in seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    ran = subprocess.run(
        [
            *(sys.executable, "-c", typed),
            *(sys.executable, "-c", MAIN),
            *("once", "mail", "--key", "k", "--", "sh", "-c", script),
        ],
        cwd=shop.directory,
        env={**os.environ, **shop.environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert ran.stdout == "True 9\n", ran.stderr
    assert row(shop, "k").error == "exit 9"


def test_a_program_that_does_not_want_to_end_is_gone_before_the_lease_is(
    sqlite_shop: Shop,
) -> None:
    """P6: --grace is for a program that is asked in time, not for one that nobody watches."""
    shop = sqlite_shop
    stubborn = f"trap '' TERM; {STAYS}; sleep 60"
    with once(shop, "first", "--grace", "60s", script=stubborn) as first:
        program = begun(shop, "first")
        first.kill()
        until(all_ended(program), "the program has ended", seconds=10)
