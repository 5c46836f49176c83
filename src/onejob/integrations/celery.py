"""Celery's beat: ``celery beat``, ``worker -B``, and schedulers such as django-celery-beat's.

Whatever a beat scheduler keeps its entries in, it sends them by ``apply_async``. The guard stands
in for that method of the one scheduler that ``beat_init`` tells of, and for ``tick``, so that what
waits for another beat is looked at in time, in the thread to which the scheduler belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from celery import Celery
from celery.beat import Scheduler
from celery.schedules import crontab, maybe_schedule, schedule, solar
from celery.signals import beat_init

from onejob.core import guarding
from onejob.core.guarding import Tick
from onejob.core.last_match import Crontab, last_match
from onejob.core.time import HOUR, Span, instant
from onejob.errors import UsageError
from onejob.guards import Guard
from onejob.integrations.guard import require

LIBRARY = "celery"

_MICROSECOND = timedelta(microseconds=1)


def attach(target: Celery | Scheduler, guard: Guard) -> None:
    """Guard a beat scheduler, or whichever one begins for this Celery app in this process."""
    if not isinstance(target, Celery):
        _guard(target, guard)
        return
    require(Scheduler, "apply_async", "tick", "reserve")

    def begun(sender: Any, **_: object) -> None:
        try:
            if _itself(sender.app) is target:
                _guard(sender.scheduler, guard)
        except Exception as error:
            # A signal swallows every exception, and beat would go on unguarded.
            raise SystemExit(f"onejob: beat is not guarded, and ends: {error}") from error

    beat_init.connect(begun, weak=False)


def _guard(scheduler: Any, guard: Guard) -> None:
    require(scheduler, "apply_async", "tick", "reserve")
    for name, entry in dict(scheduler.app.conf.beat_schedule).items():
        _timing(name, maybe_schedule(entry["schedule"], app=scheduler.app))
    vars(scheduler)["apply_async"] = partial(_apply, scheduler, guard, scheduler.apply_async)
    vars(scheduler)["tick"] = partial(_tick, guard, scheduler.tick)


def _apply(
    scheduler: Any,
    guard: Guard,
    send: Callable[..., Any],
    entry: Any,
    producer: Any = None,
    advance: bool = True,
    **options: Any,
) -> Any:
    """Send an entry that this process wins."""
    if advance:
        entry = scheduler.reserve(entry)
    sent: list[Any] = []

    def fire() -> None:
        sent.append(send(entry, producer=producer, advance=False, **options))

    guard.attempt(_timing(entry.name, entry.schedule), fire)
    return sent[0] if sent else None


def _tick(guard: Guard, tick: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Look at what waits, and sleep no longer than until the next look."""
    guard.room.look()
    wait = tick(*args, **options)
    soonest = guard.room.seconds()
    return wait if soonest is None or not wait else min(wait, soonest)


def _timing(entry_name: str, timing: Any) -> Tick:
    """Return the tick that an entry means now; its name is what its user called it."""
    name = guarding.given(LIBRARY, entry_name)
    if isinstance(timing, crontab):
        fields = Crontab(
            timing.minute,
            timing.hour,
            timing.day_of_month,
            timing.month_of_year,
            timing.day_of_week,
        )
        now = instant(timing.maybe_make_aware(timing.now()), what="now")
        match last_match(fields, now, timing.tz):
            case (fire_time, period):
                return guarding.at(name, fire_time, period=period)
            case None:
                raise UsageError(f"beat entry {entry_name!r}: {timing!r} never comes.")
    if isinstance(timing, solar):
        # One a day, at a time that moves by minutes.
        return guarding.every(name, Span(24 * HOUR), jitter=Span(12 * HOUR))
    if isinstance(timing, schedule):
        return guarding.every(name, Span(timing.run_every // _MICROSECOND))
    clocked = getattr(timing, "clocked_time", None)
    if clocked is not None:
        return guarding.at(name, instant(clocked, what="clocked_time"))
    raise UsageError(
        f"beat entry {entry_name!r} has a schedule of {type(timing).__qualname__}, which app.guard "
        "does not know. Use a crontab, an interval or a clocked one."
    )


def _itself(app: Any) -> Any:
    """Return the app behind a proxy."""
    current = getattr(app, "_get_current_object", None)
    return app if current is None else current()
