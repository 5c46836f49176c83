"""Taskiq's hook in this process: which ticks it asks for, and what is sent."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest
from taskiq import InMemoryBroker, ScheduleSource, TaskiqScheduler
from taskiq.exceptions import SendTaskError
from taskiq.schedule_sources import LabelScheduleSource
from taskiq.scheduler.scheduled_task import ScheduledTask

from guard.ticks import Noted
from onejob import UsageError
from onejob.core.time import SECOND, Span
from onejob.integrations import taskiq as hook
from onejob.permits import Later, Leave


class Shop:
    """A scheduler with one task that notes that it ran."""

    def __init__(self, guard: Noted) -> None:
        self.ran: list[str] = []
        self.broker = InMemoryBroker(await_inplace=True)

        @self.broker.task(task_name="work")
        async def work() -> None:
            self.ran.append("work")

        self.source = LabelScheduleSource(self.broker)
        self.scheduler = TaskiqScheduler(self.broker, [self.source])
        hook.attach(self.scheduler, guard)

    def fire(self, task: ScheduledTask) -> None:
        """Send a task as the scheduler's loop does when it is ready, and what follows from it."""

        async def main() -> None:
            await self.scheduler.on_ready(self.source, task)
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

        asyncio.run(main())


def scheduled(**when: object) -> ScheduledTask:
    return ScheduledTask(task_name="work", labels={}, args=[], kwargs={}, **when)


@pytest.mark.parametrize(
    ("when", "name"),
    [
        ({"cron": "* * * * *"}, "taskiq:work * * * * *"),
        ({"cron": "* * * * *", "cron_offset": "Europe/Berlin"}, "taskiq:work * * * * * Europe/"),
        ({"cron": "* * * * *", "cron_offset": timedelta(hours=1)}, "taskiq:work * * * * * 1:00:00"),
        ({"time": datetime(2026, 1, 15, 2, tzinfo=UTC)}, "taskiq:work 2026-01-15 02:00:00"),
        ({"interval": 60}, "taskiq:work 60"),
        ({"interval": 60, "schedule_id": "mine"}, "taskiq:mine"),
    ],
    ids=["cron", "zone", "offset", "time", "interval", "id"],
)
def test_a_schedule_is_called_by_what_its_user_wrote(when: dict, name: str) -> None:
    """Its id is random in each process unless one was given."""
    guard = Noted()

    Shop(guard).fire(scheduled(**when))

    assert guard.asked[0].schedule.startswith(name)


def test_a_cron_is_asked_for_by_its_minute() -> None:
    guard = Noted()

    Shop(guard).fire(scheduled(cron="* * * * *"))

    fire_time = datetime.fromisoformat(guard.keys[0].rpartition("@")[2])
    assert fire_time.second == 0
    assert abs(datetime.now(UTC) - fire_time) < timedelta(minutes=2)


def test_a_one_off_is_asked_for_by_its_time() -> None:
    guard = Noted()

    Shop(guard).fire(scheduled(time=datetime(2026, 1, 15, 2, tzinfo=UTC)))

    assert guard.keys[0].endswith("@2026-01-15T02:00:00Z")


@pytest.mark.parametrize("interval", [60, timedelta(minutes=1)])
def test_an_interval_keeps_its_distance(interval: object) -> None:
    """A23"""
    guard = Noted()

    Shop(guard).fire(scheduled(interval=interval))

    assert guard.asked[0].spacing == 59 * SECOND


def test_what_is_won_is_sent_and_recorded() -> None:
    guard = Noted()
    shop = Shop(guard)

    shop.fire(scheduled(interval=60, schedule_id="mine"))

    assert shop.ran == ["work"]
    assert guard.ended == [("done", "taskiq:mine@every")]


def test_what_is_refused_is_not_sent() -> None:
    guard = Noted(answers=[Leave])
    shop = Shop(guard)

    shop.fire(scheduled(interval=60))

    assert shop.ran == []
    assert guard.ended == []


def test_what_waits_is_sent_when_its_turn_has_come() -> None:
    guard = Noted(answers=[Later], wait=Span(10_000))
    shop = Shop(guard)

    shop.fire(scheduled(interval=60, schedule_id="mine"))

    assert shop.ran == ["work"]
    assert guard.ended == [("done", "taskiq:mine@every")]


def test_what_waited_and_cannot_be_sent_is_recorded_as_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = Noted(answers=[Later], wait=Span(10_000))
    shop = Shop(guard)

    async def broken(message: object) -> None:
        raise ConnectionError("the broker is down")

    shop.broker.kick = broken

    with caplog.at_level(logging.ERROR, "onejob"):
        shop.fire(scheduled(interval=60, schedule_id="mine"))

    assert guard.ended == [("failed", "taskiq:mine@every")]
    assert "could not be sent" in caplog.text


def test_after_a_failed_send_the_same_task_is_asked_for_again() -> None:
    guard = Noted()
    shop = Shop(guard)
    working, task = shop.broker.kick, scheduled(interval=60, schedule_id="mine")

    async def broken(message: object) -> None:
        raise ConnectionError("the broker is down")

    shop.broker.kick = broken
    with pytest.raises(SendTaskError):
        shop.fire(task)
    shop.broker.kick = working
    guard.answers = [Leave]

    shop.fire(task)

    assert guard.keys == ["taskiq:mine@every"] * 2
    assert guard.ended == [("failed", "taskiq:mine@every")]
    assert shop.ran == []


def test_a_send_that_is_cancelled_has_failed() -> None:
    """As ``--send-timeout`` does it."""
    guard = Noted()
    shop = Shop(guard)

    async def stuck(message: object) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        task = scheduled(interval=60, schedule_id="mine")
        await asyncio.wait_for(shop.scheduler.on_ready(shop.source, task), 0.2)

    shop.broker.kick = stuck
    with pytest.raises(TimeoutError):
        asyncio.run(main())

    assert guard.ended == [("failed", "taskiq:mine@every")]


def test_what_the_source_itself_says_no_to_is_not_even_asked_for() -> None:
    from taskiq.exceptions import ScheduledTaskCancelledError

    class Closed(LabelScheduleSource):
        def pre_send(self, task: ScheduledTask) -> None:
            raise ScheduledTaskCancelledError

    guard = Noted()
    broker = InMemoryBroker()
    source = Closed(broker)
    scheduler = TaskiqScheduler(broker, [source])
    hook.attach(scheduler, guard)

    asyncio.run(scheduler.on_ready(source, scheduled(interval=60)))

    assert guard.asked == []


def test_two_schedules_of_labels_that_nobody_can_tell_apart_are_refused() -> None:
    shop = Shop(Noted(answers=[Leave]))
    tasks = [scheduled(interval=60) for _ in range(2)]
    for task in tasks:
        task.args = [object()]
        shop.source.schedules[task.schedule_id] = task
    shop.fire(tasks[0])

    with pytest.raises(UsageError, match="Give each a schedule_id"):
        shop.fire(tasks[1])


def test_the_ids_of_a_source_that_keeps_them_in_common_are_the_names() -> None:
    """Two reminders with the same words for the same time are two."""

    class Stored(ScheduleSource):
        async def get_schedules(self) -> list[ScheduledTask]:
            return []

    guard = Noted()
    broker = InMemoryBroker()
    source = Stored()
    scheduler = TaskiqScheduler(broker, [source])
    hook.attach(scheduler, guard)
    reminder = scheduled(time=datetime(2026, 1, 15, 2, tzinfo=UTC))
    guard.answers = [Leave]

    asyncio.run(scheduler.on_ready(source, reminder))

    assert guard.asked[0].schedule == f"taskiq:{reminder.schedule_id}"
