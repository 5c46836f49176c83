"""Celery beat whose entries are rows: django-celery-beat's scheduler, a database for all of them.

A crontab's minute takes a second here too, as in ``celery_beat_program``.
"""

import os
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta

import django
import effect
from celery import Celery
from celery.signals import before_task_publish
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": "beat.db",
            "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"},
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django_celery_beat"],
    TIME_ZONE="UTC",
    USE_TZ=True,
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django_celery_beat.models import (  # noqa: E402
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
)
from django_celery_beat.schedulers import ModelEntry  # noqa: E402
from django_celery_beat.tzcrontab import TzAwareCrontab  # noqa: E402


def fast(schedule: object = None) -> datetime:
    return datetime.fromtimestamp(time.time() * 60 % 1_000_000_000, UTC)


def make() -> None:
    """Make the tables, and the entries of the test."""
    call_command("migrate", verbosity=0)
    match os.environ["ENTRIES"]:
        case "minutely":
            crontab = CrontabSchedule.objects.create()
            timing = {"crontab": crontab, "last_run_at": fast()}
        case "often":
            second = IntervalSchedule.objects.create(every=1, period="seconds")
            timing = {"interval": second}
        case "once":
            soon = ClockedSchedule.objects.create(
                clocked_time=datetime.now(UTC) + timedelta(seconds=6)
            )
            timing = {"clocked": soon, "one_off": True}
    PeriodicTask.objects.create(name=os.environ["ENTRIES"], task=os.environ["ENTRIES"], **timing)


def note(sender: object = None, **_: object) -> None:
    effect.effect(str(sender), 0.1)


if "MAKE" in os.environ:
    make()
    sys.exit()
if os.environ["ENTRIES"] == "minutely":
    TzAwareCrontab.nowfunc = ModelEntry._default_now = fast
celery = Celery("shop")
folder = tempfile.mkdtemp(dir=".")
celery.conf.update(
    broker_url="filesystem://",
    broker_transport_options={"data_folder_in": folder, "data_folder_out": folder},
    timezone="UTC",
    beat_max_loop_interval=0.1,
)
before_task_publish.connect(note, weak=False)
if effect.GUARDED:
    effect.app().guard(celery)
scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
celery.start(["beat", "-S", scheduler, "--pidfile=", "-l", "INFO"])
