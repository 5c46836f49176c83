"""One lock object in many hands, and callbacks that misbehave: no use ends another's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onejob import App, AsyncLease, Lease, LeaseLost, NotAcquired, StoreUnavailable, UsageError


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def broken(app: App, name: str) -> None:
    app.locks.break_(name, reason="to see what follows")


def taken(app: App, name: str) -> bool:
    found = app.locks.get(name)
    return found is not None and found.state == "held"


def test_a_late_exit_does_not_release_what_the_next_use_of_the_object_holds(app: App) -> None:
    """C01: two generators of one thread, the first of which has lost the lock."""
    lock = app.lock("x", ttl="30s")

    def use() -> Iterator[Lease]:
        with lock as lease:
            yield lease

    first, second = use(), use()
    next(first)
    broken(app, "x")
    lease = next(second)

    with pytest.raises(LeaseLost):
        next(first)

    assert taken(app, "x")
    with pytest.raises(NotAcquired), app.lock("x", ttl="30s"):
        pass
    lease.check()
    assert list(second) == []
    assert not taken(app, "x")


def test_tasks_of_one_loop_leave_each_with_their_own_lease(app: App) -> None:
    """C01, A10: a sync block in each of two tasks, in one thread."""
    lock = app.lock("x", ttl="30s")
    entered, leave = [asyncio.Event(), asyncio.Event()], [asyncio.Event(), asyncio.Event()]

    async def use(place: int) -> Any:
        with lock as lease:
            entered[place].set()
            await leave[place].wait()
            return lease.lost

    async def scenario() -> list[Any]:
        one = asyncio.create_task(use(0))
        await entered[0].wait()
        broken(app, "x")
        two = asyncio.create_task(use(1))
        await entered[1].wait()
        leave[0].set()
        await asyncio.wait([one])
        assert taken(app, "x")
        leave[1].set()
        return list(await asyncio.gather(one, two, return_exceptions=True))

    lost, mine = asyncio.run(scenario())

    assert isinstance(lost, LeaseLost)
    assert mine is False
    assert not taken(app, "x")


def lose(app: App, name: str, on_lost: Any, heard: threading.Event) -> None:
    with app.lock(name, ttl="1s", on_lost=on_lost):
        broken(app, name)
        assert heard.wait(10)


@pytest.mark.parametrize("failure", [SystemExit, KeyboardInterrupt, ValueError])
def test_whatever_on_lost_raises_the_next_loss_is_told(
    app: App, failure: type[BaseException]
) -> None:
    told: list[str] = []
    heard = threading.Event()

    def leave(lease: Lease) -> None:
        told.append(lease.name)
        heard.set()
        raise failure("lost")

    for name in ("x", "y"):
        heard.clear()
        with pytest.raises(LeaseLost):
            lose(app, name, leave, heard)

    assert told == ["x", "y"]


def test_on_lost_is_called_where_no_thread_is_to_be_had(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    heard = threading.Event()
    start = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if thread.name == "onejob-lost":
            raise RuntimeError("can't start new thread")
        start(thread)

    def tell(lease: Lease) -> None:
        told.append(lease.name)
        heard.set()

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(LeaseLost):
        lose(app, "x", tell, heard)

    assert told == ["x"]


def test_a_slow_on_lost_keeps_no_other_body_from_being_cancelled(app: App) -> None:
    """C06"""
    release = threading.Event()

    def slow(lease: AsyncLease) -> None:
        release.wait(20)

    async def body(name: str, on_lost: Any) -> str:
        try:
            async with app.lock(name, ttl="1s", on_lost=on_lost):
                await asyncio.sleep(20)
        except LeaseLost:
            return "lost"
        return "went on"

    async def scenario() -> list[str]:
        first = asyncio.create_task(body("x", slow))
        other = asyncio.create_task(body("y", None))
        await asyncio.sleep(0.1)
        broken(app, "x")
        broken(app, "y")
        return list(await asyncio.wait_for(asyncio.gather(first, other), 10))

    try:
        assert asyncio.run(scenario()) == ["lost", "lost"]
    finally:
        release.set()


def test_a_lock_that_nobody_could_renew_is_given_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread was to be had once: the next lock is renewed all the same."""
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name == "onejob-renewer":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError), app.lock("x", ttl="30s"):
        pass
    assert not taken(app, "x")
    monkeypatch.undo()

    with app.lock("x", ttl="1s") as lease:
        names = {thread.name for thread in threading.enumerate()}
        assert {"onejob-renewer", "onejob-watch"} <= names
        lease.check()


class Colour:
    async def __call__(self) -> str:
        return "awaited"


def test_what_would_begin_after_the_call_is_refused_before_it_does(app: App) -> None:
    began: list[str] = []

    async def work() -> None:
        began.append("work")

    def wrapped() -> Any:
        return work()

    def generator() -> Any:
        yield from range(3)

    for function in (wrapped, lambda: generator()):
        with pytest.raises(UsageError, match="would run after the call, without the lock"):
            app.lock("x")(function)()

    assert began == []
    assert not taken(app, "x")


def test_an_object_with_an_async_call_holds_the_lock_while_it_is_awaited(app: App) -> None:
    locked = app.lock("x")(Colour())

    assert asyncio.run(locked()) == "awaited"  # type: ignore[arg-type]


def test_many_whose_wait_ends_together_ask_two_at_a_time(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C24: the last question and the giving up need no connection for each either."""
    store, inside, most = app.store, [0], [0]
    ran, guard = store.run, threading.Lock()

    def counted(command: Any, within: Any = None) -> Any:
        with guard:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        try:
            time.sleep(0.002)
            return ran(command, within)
        finally:
            with guard:
                inside[0] -= 1

    refusals: list[NotAcquired] = []

    def wait() -> None:
        try:
            with app.lock("x", wait="300ms"):
                raise AssertionError("two hold it")
        except NotAcquired as refused:
            refusals.append(refused)

    with app.lock("x", ttl="30s"):
        monkeypatch.setattr(store, "run", counted)
        threads = [threading.Thread(target=wait) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)

    assert len(refusals) == 60
    assert most[0] <= 4


def test_a_block_that_outlives_the_app_gives_its_lock_back_all_the_same(
    app_of: Callable[[], App],
) -> None:
    """C01: close(), or the interpreter's end, has ended the threads that a loop asks by."""
    app, other = app_of(), app_of()

    async def outlive() -> None:
        async with app.lock("x", ttl="30s", wait="1s"):
            await asyncio.to_thread(app.close)

    asyncio.run(outlive())

    assert not taken(other, "x")
    with other.lock("x", ttl="30s", wait="5s"):
        pass


@pytest.fixture
def app_of(sqlite_url: str) -> Iterator[Callable[[], App]]:
    """Makes Apps on one store, as of several processes."""
    apps: list[App] = []

    def made() -> App:
        apps.append(App(sqlite_url))
        return apps[-1]

    made().store.init()  # type: ignore[attr-defined]
    yield made
    for app in apps:
        app.close()


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, StoreUnavailable])
def test_a_lock_whose_acquisition_was_never_answered_is_given_back(
    app: App, monkeypatch: pytest.MonkeyPatch, trouble: type[BaseException]
) -> None:
    """C01: the store has given it, to nobody: its minimum would keep everybody out for nothing."""
    deaf(app, monkeypatch, trouble)

    with pytest.raises(trouble), app.lock("x", ttl="30s", at_least="10m"):
        raise AssertionError("nobody has told it so")

    soon(lambda: free(app, "x"))


def test_so_it_is_in_a_loop(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf(app, monkeypatch, StoreUnavailable)

    async def acquire() -> None:
        async with app.lock("x", ttl="30s", at_least="10m"):
            raise AssertionError("nobody has told it so")

    with pytest.raises(StoreUnavailable):
        asyncio.run(acquire())

    soon(lambda: free(app, "x"))


@pytest.mark.slow
def test_so_it_is_where_the_interrupt_ends_the_process(
    sqlite_url: str, app_of: Callable[[], App]
) -> None:
    program = (
        "import sys, time; from onejob import App; app = App(sys.argv[1]); store = app.store\n"
        "ran, lane = store.run, store.lane\n"
        "def interrupted(command):\n"
        "    if ran(command) and command.name == 'lease_acquire': raise KeyboardInterrupt\n"
        "def slow(**more): time.sleep(0.5); return lane(**more)\n"
        "store.run, store.lane = interrupted, slow\n"
        "with app.lock('x', ttl='30s', at_least='10m'): pass"
    )

    done = subprocess.run([sys.executable, "-c", program, sqlite_url], timeout=20, check=False)

    assert done.returncode
    found = app_of().locks.get("x")
    assert found is not None
    assert found.token
    assert found.state == "free"


def test_one_who_is_cancelled_while_acquiring_keeps_no_minimum(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C01: what it was given all the same it has not used."""
    store = app.store
    ran = store.run

    def slow(command: Any, within: Any = None) -> Any:
        answer = ran(command, within)
        if command.name == "lease_acquire":
            time.sleep(0.2)
        return answer

    monkeypatch.setattr(store, "run", slow)

    async def acquire() -> None:
        async with asyncio.timeout(0.1), app.lock("x", ttl="30s", at_least="10m"):
            raise AssertionError("it had no time left")

    with pytest.raises(TimeoutError):
        asyncio.run(acquire())

    soon(lambda: free(app, "x"))


def free(app: App, name: str) -> bool:
    try:
        with app.lock(name):
            return True
    except NotAcquired:
        return False


def deaf(app: App, monkeypatch: pytest.MonkeyPatch, trouble: type[BaseException]) -> None:
    """Lose the reply to the one question that takes the lock: once it has been carried out."""
    store: Any = app.store
    ran = store.run

    def heard(command: Any, within: Any = None) -> Any:
        answer = ran(command, within)
        if command.name == "lease_acquire" and answer is not None:
            monkeypatch.setattr(store, "run", ran)
            raise trouble("store", "the reply was lost")
        return answer

    monkeypatch.setattr(store, "run", heard)


def soon(claim: Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not claim():
        assert time.monotonic() < ends
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_block_that_ends_with_the_interpreter_gives_back_and_does_not_hang(
    request: pytest.FixtureRequest, store: str
) -> None:
    """Daemon threads stop wherever they are by then, with whatever they have in their hands."""
    url = request.getfixturevalue(f"{store}_url")
    schema = request.getfixturevalue("schema") if store == "postgres" else "onejob"
    app = App(url, schema=schema)
    app.store.init()  # type: ignore[attr-defined]
    program = (
        "import sys; from onejob import App; app = App(sys.argv[1], schema=sys.argv[2])\n"
        "def use():\n    with app.lock('x', ttl='30s'): yield 1\n"
        "using = use(); next(using)"
    )

    for _ in range(3):
        subprocess.run([sys.executable, "-c", program, url, schema], timeout=20, check=True)
        assert not taken(app, "x")
    app.close()
