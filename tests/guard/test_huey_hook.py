"""Huey's hook in this process: which minute it asks for, and what it enqueues."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from huey import MemoryHuey, crontab

from guard.ticks import Noted
from onejob.integrations import huey as hook
from onejob.permits import Later, Leave


@pytest.fixture
def guard() -> Noted:
    return Noted()


@pytest.fixture
def queue(guard: Noted) -> MemoryHuey:
    queue = MemoryHuey("shop")
    hook.attach(queue, guard)

    @queue.periodic_task(crontab(minute="*/15"))
    def report() -> None: ...

    @queue.periodic_task(crontab(minute="0"))
    def purge() -> None: ...

    return queue


def at(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 1, 15, 1, minute, second)  # noqa: DTZ001 - as the consumer has it


def test_what_matches_and_is_won_is_enqueued_by_the_guard(queue: MemoryHuey, guard: Noted) -> None:
    assert queue.read_periodic(at(0, 17)) == []

    assert sorted(guard.keys) == [
        f"huey:shop/{__name__}.purge@2026-01-15T01:00:00Z",
        f"huey:shop/{__name__}.report@2026-01-15T01:00:00Z",
    ]
    assert len(queue.pending()) == 2


@pytest.mark.parametrize("second", [0, 1, 30, 59])
def test_whenever_within_the_minute_a_process_asks_it_means_that_minute(
    queue: MemoryHuey, guard: Noted, second: int
) -> None:
    """A01: consumers ask in the phase in which they were started."""
    queue.read_periodic(at(15, second))

    assert guard.keys == [f"huey:shop/{__name__}.report@2026-01-15T01:15:00Z"]


def test_without_a_timestamp_it_is_this_minute_in_real_time(
    queue: MemoryHuey, guard: Noted
) -> None:
    @queue.periodic_task(lambda timestamp: True)
    def always() -> None: ...

    queue.read_periodic(None)

    key = next(key for key in guard.keys if ".always@" in key)
    age = datetime.now().astimezone() - datetime.fromisoformat(key.rpartition("@")[2])
    assert timedelta(0) <= age < timedelta(minutes=2)


def test_a_refused_task_is_not_enqueued_and_one_that_waits_is_later(
    queue: MemoryHuey, guard: Noted
) -> None:
    guard.answers = [Leave, Later]

    queue.read_periodic(at(0))
    assert queue.pending() == []
    guard.look_later()

    assert len(queue.pending()) == 1


def test_a_task_that_cannot_be_enqueued_does_not_keep_up_the_others(
    queue: MemoryHuey, guard: Noted, caplog: pytest.LogCaptureFixture
) -> None:
    enqueue, failures = queue.enqueue, iter([RuntimeError("full")])

    def sometimes(task: object) -> object:
        for failure in failures:
            raise failure
        return enqueue(task)

    queue.enqueue = sometimes

    queue.read_periodic(at(0))

    assert len(queue.pending()) == 1
    assert "could not be enqueued" in caplog.text
