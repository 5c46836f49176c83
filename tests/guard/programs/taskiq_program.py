"""Taskiq without a server: one-off times at each second, and an interval."""

import asyncio
import os
from datetime import UTC, datetime, timedelta

import effect
from taskiq import InMemoryBroker, TaskiqScheduler
from taskiq.cli.scheduler.args import SchedulerArgs
from taskiq.cli.scheduler.run import run_scheduler
from taskiq.schedule_sources import LabelScheduleSource

broker = InMemoryBroker(await_inplace=True)
begin = datetime.fromtimestamp(int(os.environ["BEGIN"]), UTC)
times = [{"time": begin + timedelta(seconds=n)} for n in range(60)]


@broker.task(task_name="secondly", schedule=times)
async def secondly() -> None:
    effect.effect("secondly")
    await asyncio.sleep(0.1)


@broker.task(task_name="often", schedule=[{"interval": 1}])
async def often() -> None:
    effect.effect("often")


scheduler = TaskiqScheduler(broker, [LabelScheduleSource(broker)])
if effect.GUARDED:
    effect.app().guard(scheduler)
asyncio.run(run_scheduler(SchedulerArgs(scheduler=scheduler, modules=[])))
