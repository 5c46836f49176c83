"""``app.once_per`` in processes that are started together, killed and frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from onejob import App
from onejob.commands import claims, views
from onejob.commands.claims import ClaimView

from .conftest import install

pytestmark = pytest.mark.slow

#: As users write it, with two ways to stay in the middle of the work.
SHOP = """
import os, pathlib, sys, threading, time
from onejob import App, SKIPPED

app = App(os.environ["SHOP_URL"], schema=os.environ["SHOP_SCHEMA"])

@app.once_per("0 0 1 1 *", ttl="1s")
def digest(how):
    with open("effects", "a") as file:
        file.write(f"{os.getpid()}\\n")
    while how == "stays" and not pathlib.Path("go").exists():
        time.sleep(0.02)
    return "sent"

if sys.argv[1] == "threads":
    ready = threading.Barrier(4)
    answers = []
    def call():
        ready.wait()
        answers.append(digest("quick"))
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(sum(answer is not SKIPPED for answer in answers))
else:
    print(digest(sys.argv[1]))
"""


@dataclass
class Place:
    """A store, and what has been started over it. None of it outlives the test."""

    app: App
    url: str
    schema: str
    directory: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, how: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "shop.py", how],
            cwd=self.directory,
            env={**os.environ, "SHOP_URL": self.url, "SHOP_SCHEMA": self.schema},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def answer(self, how: str) -> str:
        """Call the function in a process of its own; return what it answers."""
        out, err = self.start(how).communicate(timeout=30)
        assert out, err
        return out.strip()

    def effects(self) -> list[int]:
        file = self.directory / "effects"
        return [int(pid) for pid in file.read_text().split()] if file.exists() else []

    def row(self) -> ClaimView:
        [view] = self.app.store.run(claims.listed(claims.PERIOD))
        return view


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        url, schema = request.getfixturevalue("sqlite_url"), "onejob"
    else:
        url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("schema")
    app = App(url, schema=schema)
    install(app)
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "shop.py").write_text(SHOP)
    place = Place(app, url, schema, directory)
    yield place
    for process in place.started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)
    app.close()


def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def test_of_processes_and_their_threads_that_begin_together_one_does_the_work(
    place: Place,
) -> None:
    """A01, A14: four processes with four threads each, a job of no time at all."""
    started = [place.start("threads") for _ in range(4)]

    won = [int(process.communicate(timeout=40)[0]) for process in started]

    assert sorted(won) == [0, 0, 0, 1]
    assert place.effects() == [started[won.index(1)].pid]


def test_a_period_whose_process_was_killed_goes_to_the_next_call_and_is_told(place: Place) -> None:
    """B07: never "running" for ever."""
    first = place.start("stays")
    until(place.effects, "it has begun")

    beside = place.answer("quick")
    first.kill()
    until(lambda: place.row().lapsed, "its claim has lapsed")
    after = place.answer("quick")

    assert (beside, after) == ("onejob.SKIPPED", "sent")
    assert (place.row().state, place.row().attempt, len(place.effects())) == ("done", 2, 2)
    kinds = [event.kind for event in place.app.store.run(views.events(schedule="digest"))]
    assert kinds == ["period.lost", "period.abandoned"]


def test_a_process_that_was_frozen_past_its_lease_is_told_when_it_ends(place: Place) -> None:
    """A13, B03: the other one's record stands; the frozen one can no longer say that it was it."""
    first = place.start("stays")
    until(place.effects, "it has begun")
    first.send_signal(signal.SIGSTOP)
    until(lambda: place.row().lapsed, "its claim has lapsed")

    after = place.answer("quick")
    first.send_signal(signal.SIGCONT)
    (place.directory / "go").touch()
    out, err = first.communicate(timeout=30)

    assert after == "sent"
    assert (out, first.returncode) == ("", 1)
    assert "LeaseLost: period" in err
    assert (place.row().state, place.row().attempt) == ("done", 2)
