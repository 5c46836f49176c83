"""APScheduler: a job at each second, one at an interval, both without an id."""

import time

import effect
from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="UTC")
# Processes are not in phase: each counts from its own start.
time.sleep(0.3 * effect.NUMBER)
scheduler.add_job(effect.effect, "cron", second="*", args=["secondly", 0.2])
scheduler.add_job(effect.effect, "interval", seconds=1, args=["often"])
if effect.GUARDED:
    effect.app().guard(scheduler)
scheduler.start()
while True:
    time.sleep(60)
