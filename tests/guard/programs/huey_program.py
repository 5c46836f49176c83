"""Huey over a file of SQLite. Its minute takes a second, the same in every process."""

import time
from datetime import UTC, datetime

import effect
import huey.consumer
from huey import SqliteHuey, crontab
from huey.signals import SIGNAL_ENQUEUED

queue = SqliteHuey("shop", filename="huey.db")
ask = huey.consumer.Scheduler.enqueue_periodic_tasks


def fast(scheduler: object, now: object) -> None:
    moment = datetime.fromtimestamp(time.time() * 60 % 1_000_000_000, UTC)
    ask(scheduler, moment.replace(tzinfo=None))


huey.consumer.Scheduler.enqueue_periodic_tasks = fast
huey.consumer.Scheduler.periodic_task_seconds = 1


@queue.periodic_task(crontab(minute="*"))
def minutely() -> None: ...


@queue.signal(SIGNAL_ENQUEUED)
def note(signal: object, task: object) -> None:
    effect.effect("minutely", 0.1)


time.sleep(0.3 * effect.NUMBER)
if effect.GUARDED:
    effect.app().guard(queue)
queue.create_consumer(workers=1, check_worker_health=False).run()
