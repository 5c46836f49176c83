"""APScheduler: a job at each second that takes a moment, and no id of its own."""

import time

import effect
from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="UTC")
work = effect.effect
if effect.EVERY:
    # Processes are not in phase: each counts from its own start.
    time.sleep(0.3 * effect.NUMBER)
    scheduler.add_job(work, "interval", seconds=int(effect.EVERY), kwargs={"seconds": 0.2})
else:
    scheduler.add_job(work, "cron", second="*", kwargs={"seconds": 0.2})
if effect.GUARDED:
    effect.app().guard(scheduler)
scheduler.start()
while True:
    time.sleep(60)
