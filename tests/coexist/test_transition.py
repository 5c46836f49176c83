"""Three releases, rolled out one process after the other: never two inside, of whichever kinds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pglock
import psycopg
import pytest
import redis.exceptions
import redis_lock
from django.db import OperationalError, connections

from coexist.java import TABLE, Java
from coexist.page import pasted
from onejob import App, NotAcquired

PROCESSES = 3
#: How long each mixture of releases runs.
STAGE_SECONDS = 0.08

Guard = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Move:
    """What each release takes, and how it is told that the old lock is taken."""

    releases: tuple[Guard, Guard, Guard]
    taken: type[Exception]
    #: What a thread, which stands for a process here, does at its end.
    leave: Callable[[], object] = lambda: None


@dataclass(slots=True)
class Work:
    """The job: it counts who is in it at the same time."""

    inside: int = 0
    most: int = 0
    done: int = 0
    counting: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        with self.counting:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.003)
        with self.counting:
            self.inside -= 1
            self.done += 1


@pytest.fixture(params=["redis-py", "python-redis-lock", "django-pglock", "shedlock"])
def move(request: pytest.FixtureRequest) -> Iterator[Move]:
    ask = request.getfixturevalue
    if request.param == "django-pglock":
        yield _pglock(ask("postgres_app"), ask("alias"))
    elif request.param == "shedlock":
        yield from _shedlock(ask("postgres_app"), ask("postgres_url"), ask("schema"))
    else:
        yield _redis(request.param, ask("redis_app"), ask("client"), ask("name"))


def _redis(kind: str, app: App, client: Any, name: str) -> Move:
    page = pasted("redis-py's `Lock`", "python-redis-lock", app=app, nightly=name, client=client)
    new = lambda: app.lock(name)  # noqa: E731
    if kind == "redis-py":
        old = lambda: client.lock(name, timeout=60, blocking=False)  # noqa: E731
        return Move((old, page.both, new), redis.exceptions.LockError)
    old = lambda: redis_lock.Lock(client, name, expire=60, blocking=False)  # noqa: E731
    return Move((old, page.both_renewed, new), redis_lock.NotAcquired)


def _pglock(app: App, alias: str) -> Move:
    page = pasted("django-pglock", app=app)

    def old() -> AbstractContextManager[Any]:
        return pglock.advisory("nightly", using=alias, timeout=0, side_effect=pglock.Raise)

    return Move(
        (old, lambda: page.both_in_django(alias), lambda: app.lock("nightly")),
        OperationalError,
        leave=lambda: connections[alias].close(),
    )


def _shedlock(app: App, url: str, schema: str) -> Iterator[Move]:
    page, mine = pasted("ShedLock's table", app=app), threading.local()
    opened: list[Any] = []

    def session() -> Any:
        if not hasattr(mine, "connection"):
            options = f"-c search_path={schema}"
            mine.connection = psycopg.connect(url, options=options, autocommit=True)
            opened.append(mine.connection)
        return mine.connection

    @contextmanager
    def in_java() -> Iterator[None]:
        java = Java(session(), f"java-{threading.get_ident()}")
        if not java.lock("nightly"):
            raise page.Taken
        try:
            yield
        finally:
            java.unlock("nightly")

    session().execute(TABLE)
    both = lambda: page.both_with_java(session())  # noqa: E731
    yield Move((in_java, both, lambda: app.lock("nightly")), page.Taken)
    for connection in opened:
        with closing(connection):
            pass


def rolled_out(move: Move, stages: list[list[int]]) -> Work:
    """Run processes through mixtures of releases; one changes between two leases only."""
    work, running = Work(), list(stages[0])
    over = threading.Event()
    idle = [threading.Lock() for _ in running]
    failed: list[BaseException] = []

    def process(number: int) -> None:
        try:
            while not over.is_set():
                with idle[number]:
                    try:
                        with move.releases[running[number]]():
                            work.run()
                    except (move.taken, NotAcquired):
                        pass
                time.sleep(0.001)
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)
        finally:
            move.leave()

    threads = [
        threading.Thread(target=process, args=(n,), daemon=True) for n in range(len(running))
    ]
    try:
        for thread in threads:
            thread.start()
        for stage in stages:
            for number, release in enumerate(stage):
                with idle[number]:
                    running[number] = release
            time.sleep(STAGE_SECONDS)
    finally:
        over.set()
    for thread in threads:
        thread.join(20)
    assert failed == []
    return work


def test_a_rolling_deploy_never_has_two_inside(move: Move) -> None:
    """C22, A21: each release beside the one before it, process by process; and back again."""
    there = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 2]]

    work = rolled_out(move, [*there, *reversed(there)])

    assert work.most == 1
    assert work.done > len(there)


def test_without_the_release_between_two_are_inside(move: Move) -> None:
    """C22: why it is there."""
    old, _, new = move.releases

    with old(), new() as lease:
        assert lease.token
    assert rolled_out(move, [[0, 2, 2]] * 4).most == 2
    move.leave()
