"""What PostgreSQL sees of a working replica, and what becomes of it when sessions are lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psycopg
import pytest

from cases.conftest import Place
from onejob import App, Run

SESSIONS = """
SELECT pid, state, query, extract(epoch FROM clock_timestamp() - xact_start)
  FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = 'onejob'
"""

ADVISORY = f"""
SELECT count(*) FROM pg_locks
 WHERE locktype = 'advisory' AND pid IN (SELECT pid FROM ({SESSIONS}) AS s)
"""


@dataclass
class Onlooker:
    """A superuser's own session beside the replica's."""

    connection: psycopg.Connection[tuple[object, ...]]
    seen: Counter[str] = field(default_factory=Counter)
    most: int = 0
    longest: float = 0.0
    advisory: int = 0

    def look(self) -> list[tuple[object, ...]]:
        """Take a sample: how many sessions, in which states, in transactions of what age."""
        rows = self.connection.execute(SESSIONS).fetchall()
        self.most = max(self.most, len(rows))
        for _, state, _, age in rows:
            self.seen[str(state)] += 1
            if state != "active" and age is not None:
                self.longest = max(self.longest, float(str(age)))
        [[advisory]] = self.connection.execute(ADVISORY.encode()).fetchall()
        self.advisory = max(self.advisory, int(str(advisory)))
        return rows

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Look until something is so, with a bound."""
        ends = time.monotonic() + 15
        while not condition():
            self.look()
            assert time.monotonic() < ends, what
            time.sleep(0.01)

    def terminate(self) -> int:
        """End every session of the replica's, as a restarting server does."""
        ended = "SELECT pg_terminate_backend(pid) FROM (" + SESSIONS + ") AS s"
        return len(self.connection.execute(ended.encode()).fetchall())


@pytest.fixture
def onlooker(postgres_url: str) -> Iterator[Onlooker]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield Onlooker(connection)


def test_no_transaction_is_open_while_a_job_runs(postgres_place: Place, onlooker: Onlooker) -> None:
    """C23, C32, F02, F08: a server that ends idle transactions at once ends none of ours.

    Nor does any session hold an advisory lock, and the listener is in no transaction.
    """
    strict = "?options=-c%20idle_in_transaction_session_timeout%3D100"
    app = App(postgres_place.url + strict, schema=postgres_place.schema, lease="3s")
    postgres_place.apps.append(app)
    ended: list[int] = []

    @app.job()
    def charge(run: Run) -> None:
        run.effect("call", lambda: time.sleep(0.6))
        run.progress(1, 2)
        time.sleep(0.6)
        run.check()
        ended.append(run.attempt)

    app.start()
    id = charge.enqueue().run_id
    onlooker.until(lambda: bool(ended), "the job has not ended")
    run = app.runs.wait(id, timeout=5)
    for _ in range(50):
        onlooker.look()
        time.sleep(0.01)

    assert (run.outcome, run.attempt) == ("succeeded", 1)
    assert onlooker.longest < 0.2
    assert onlooker.advisory == 0
    assert onlooker.seen["idle"] > 0


def test_fifty_threads_open_three_connections(postgres_place: Place, onlooker: Onlooker) -> None:
    """G06: one for the keeper, two for the loops, whatever the concurrency."""
    worker = postgres_place.app(concurrency=50)
    done: list[int] = []

    @worker.job()
    def resize(image_id: int) -> None:
        time.sleep(0.05)
        done.append(image_id)

    resize.enqueue_many([{"image_id": n} for n in range(200)])
    worker.close()
    onlooker.until(lambda: not onlooker.connection.execute(SESSIONS.encode()).fetchall(), "closed")
    onlooker.most = 0
    worker.start()

    onlooker.until(lambda: len(done) == 200, "the runs have not ended")

    assert onlooker.most <= 3


def test_a_terminated_listener_listens_again_and_misses_nothing(
    postgres_place: Place, onlooker: Onlooker
) -> None:
    """F03, F04: with a poll of a minute only a hint can bring the runs within seconds.

    One is made while nobody listens, one after that.
    """
    app, producer = postgres_place.app(poll="60s", lease="3s"), postgres_place.app()
    jobs = []
    for one in (app, producer):

        @one.job()
        def resize() -> None: ...

        jobs.append(resize)
    app.start()
    onlooker.until(lambda: app.status().running, "the replica has not joined")
    idle = "SELECT count(*) FROM {}.replica WHERE idle = 1 AND dead_at = 0"
    text = idle.format(f'"{postgres_place.schema}"').encode()
    onlooker.until(lambda: onlooker.connection.execute(text).fetchall() == [(1,)], "not idle")
    replica = app.status().replica

    assert onlooker.terminate() >= 1
    began = time.monotonic()
    in_the_gap = producer.runs.wait(jobs[1].enqueue().run_id, timeout=10)
    onlooker.until(lambda: onlooker.connection.execute(text).fetchall() == [(1,)], "not idle")
    later = producer.runs.wait(jobs[1].enqueue().run_id, timeout=10)

    assert (in_the_gap.outcome, later.outcome) == ("succeeded", "succeeded")
    assert time.monotonic() - began < 8
    assert app.status().replica == replica


def test_a_server_that_closes_idle_sessions_costs_no_lease(postgres_place: Place) -> None:
    """C27, as PostgreSQL does it: the keeper's session is closed between its renewals."""
    hasty = "?options=-c%20idle_session_timeout%3D200"
    app = App(postgres_place.url + hasty, schema=postgres_place.schema, lease="2s")
    postgres_place.apps.append(app)
    told: list[str] = []
    app.events.listen(lambda event: told.append(event.name))

    @app.job()
    def slow() -> None:
        time.sleep(2.5)

    app.start()
    run = app.runs.wait(slow.enqueue().run_id, timeout=10)

    assert (run.outcome, run.attempt, run.deaths) == ("succeeded", 1, 0)
    assert "replica.lost" not in told
