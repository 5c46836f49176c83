"""APScheduler: a job at each second, one at an interval, both without an id.

In a thread, or in a loop where LOOP says so; ON_UNKNOWN is what becomes of unknown ticks.
"""

import asyncio
import os
import time

import effect
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

in_a_loop = bool(os.environ.get("LOOP"))
scheduler = (AsyncIOScheduler if in_a_loop else BackgroundScheduler)(timezone="UTC")
# Processes are not in phase: each counts from its own start.
time.sleep(0.3 * effect.NUMBER)
scheduler.add_job(effect.effect, "cron", second="*", args=["secondly", 0.2])
scheduler.add_job(effect.effect, "interval", seconds=1, args=["often"])
if effect.GUARDED:
    effect.app().guard(scheduler, on_unknown=os.environ.get("ON_UNKNOWN", "skip"))


async def serve() -> None:
    scheduler.start()
    await asyncio.Event().wait()


if in_a_loop:
    asyncio.run(serve())
scheduler.start()
while True:
    time.sleep(60)
