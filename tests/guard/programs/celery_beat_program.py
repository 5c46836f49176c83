"""Celery beat with a broker in a folder: what it sends are files there, and one line each.

A crontab's minute takes a second: its clock runs sixty times as fast, the same in every process.
"""

import os
import sys
import tempfile
import time
from datetime import UTC, datetime

import effect
from celery import Celery
from celery.schedules import crontab
from celery.signals import before_task_publish


def fast() -> datetime:
    return datetime.fromtimestamp(time.time() * 60 % 1_000_000_000, UTC)


celery = Celery("shop")
folder = tempfile.mkdtemp(dir=".")
celery.conf.update(
    broker_url="filesystem://",
    broker_transport_options={"data_folder_in": folder, "data_folder_out": folder},
    timezone="UTC",
    beat_max_loop_interval=0.1,
)
# Not both at once: beat sorts its entries by one clock.
timing = 1.0 if "often" in os.environ else crontab(nowfun=fast)
task = "often" if "often" in os.environ else "minutely"
celery.conf.beat_schedule = {task: {"task": task, "schedule": timing}}


def note(sender: object = None, **_: object) -> None:
    effect.effect(str(sender), 0.1)


before_task_publish.connect(note, weak=False)
if effect.GUARDED:
    effect.app().guard(celery)
sys.argv = ["celery", "beat", "-s", f"{folder}/schedule", "--pidfile=", "-l", "INFO"]
celery.start(sys.argv[1:])
