"""A forked child uses nothing of its parent's: no thread, no connection, no lease."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

STARTED = """
import os, sys, threading, time
from onejob import App
app = App(sys.argv[1], schema=sys.argv[2], lease="3s")

@app.job()
def who() -> int:
    return os.getpid()

app.store.init()
app.start()
def running(seconds=20):
    ends = time.monotonic() + seconds
    while not app.status().running and time.monotonic() < ends:
        time.sleep(0.01)
    return app.status().running

assert running()
parent = os.getpid()
"""


def run(tmp_path: Path, body: str, url: str, schema: str) -> str:
    program = tmp_path / "program.py"
    program.write_text(STARTED + textwrap.dedent(body))
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(program), url, schema]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_url"), "onejob"
    return request.getfixturevalue("postgres_url"), request.getfixturevalue("schema")


def test_a_child_has_no_replica_and_says_where_it_is(
    tmp_path: Path, place: tuple[str, str]
) -> None:
    """A03: never silently dead; and the parent's replica goes on as if nothing had happened."""
    body = """
        mine = app.status().replica
        read, write = os.pipe()
        if os.fork() == 0:
            status = str(app.status())
            run = who.using(delay="1h").enqueue()
            os.write(write, f"{status}; enqueued {run.created}".encode())
            os._exit(0)
        os.wait()
        print(os.read(read, 1000).decode().replace(str(parent), "PARENT"))
        assert app.status().replica == mine
        print(app.runs.wait(who.enqueue().run_id, timeout=10).result == parent)
        app.close()
    """

    out = run(tmp_path, body, *place)

    assert out.splitlines() == ["not running here: started in pid PARENT; enqueued True", "True"]


def test_a_child_of_a_started_app_starts_a_replica_of_its_own(
    tmp_path: Path, place: tuple[str, str]
) -> None:
    """A03, as under ``gunicorn --preload``: the parent's threads are not there, its own are."""
    body = """
        theirs = app.status().replica
        read, write = os.pipe()
        if os.fork() == 0:
            ok = running()
            os.write(write, f"{ok} {app.status().replica != theirs}".encode())
            app.close()
            os._exit(0)
        os.wait()
        print(os.read(read, 1000).decode())
        print(app.status().replica == theirs)
        app.close()
    """

    assert run(tmp_path, body, *place).splitlines() == ["True True", "True"]


def test_a_child_outlives_the_parent_that_started_it(
    tmp_path: Path, place: tuple[str, str]
) -> None:
    """As a process that makes itself a daemon: the child's replica does the work."""
    body = """
        read, write = os.pipe()
        if os.fork() == 0:
            running()
            run = app.runs.wait(who.enqueue().run_id, timeout=10)
            os.write(write, str(run.result == os.getpid()).encode())
            app.close()
            os._exit(0)
        app.close()
        print(os.read(read, 1000).decode())
        os.wait()
    """

    assert run(tmp_path, body, *place).splitlines() == ["True"]


def test_a_worker_of_multiprocessing_is_no_replica(tmp_path: Path, sqlite_url: str) -> None:
    body = """
        import multiprocessing
        def ask():
            return app.status().running, len(threading.enumerate())
        with multiprocessing.get_context("fork").Pool(1) as pool:
            time.sleep(1.0)
            print(*pool.apply(ask))
        app.close()
    """

    assert run(tmp_path, body, sqlite_url, "onejob").split()[0] == "False"


def test_a_child_that_calls_start_runs_at_once(tmp_path: Path, sqlite_url: str) -> None:
    body = """
        pid = os.fork()
        if pid == 0:
            app.start()
            app.start()
            ok = running()
            app.close()
            os._exit(0 if ok else 1)
        print(os.waitpid(pid, 0)[1])
        app.close()
    """

    assert run(tmp_path, body, sqlite_url, "onejob").split() == ["0"]


def test_a_fork_amid_writes_leaves_the_child_a_store_it_can_use(
    tmp_path: Path, sqlite_url: str
) -> None:
    """SQLite keeps its locks in the process: a copy of a held one would be held for ever."""
    body = """
        import signal
        writing = True
        def write():
            while writing:
                who.using(delay="1h").enqueue()
        threads = [threading.Thread(target=write) for _ in range(2)]
        [thread.start() for thread in threads]
        failed = 0
        for _ in range(8):
            pid = os.fork()
            if pid == 0:
                signal.alarm(5)
                who.using(delay="1h").enqueue()
                os._exit(0)
            failed += os.waitpid(pid, 0)[1] != 0
        writing = False
        [thread.join() for thread in threads]
        print(failed)
        app.close()
    """

    assert run(tmp_path, body, sqlite_url, "onejob").split() == ["0"]


def test_an_app_that_is_never_stopped_gives_its_work_back_at_exit(
    tmp_path: Path, sqlite_url: str
) -> None:
    """A web server's worker that ends: its replica leaves, nobody waits for its lease."""
    run(tmp_path, "print(app.status().replica)", sqlite_url, "onejob")

    from onejob import App
    from onejob.commands import views

    app = App(sqlite_url)
    [replica] = app.store.run(views.replicas())
    app.close()
    assert replica.dead_at > 0


def test_a_child_of_a_parent_that_asks_for_locks_gets_a_free_one_at_once(
    tmp_path: Path, sqlite_url: str
) -> None:
    """Turns to ask that threads of the parent have at the fork are free in the child."""
    body = """
        with app.lock("free", wait="1s"):
            pass
        store = app._services().store
        asked, ask, forked = threading.Semaphore(0), store.run, threading.Event()

        def slow(command):
            asked.release()
            forked.wait(20)
            return ask(command)

        def hold(name):
            with app.lock(name, wait="20s"):
                pass

        store.run = slow
        threads = [threading.Thread(target=hold, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        asked.acquire(), asked.acquire()
        child = os.fork()
        if child == 0:
            begun = time.monotonic()
            with app.lock("free", wait="10s"):
                print(f"after {time.monotonic() - begun < 5}", flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        forked.set()
        for thread in threads:
            thread.join()
        app.close()
    """

    assert run(tmp_path, body, sqlite_url, "onejob").split("\n")[:2] == ["after True", "0"]
