"""Finds the hook for a scheduler of another library, and puts it in once.

What cannot be guarded is refused here, when the program starts: an object of a library that we
don't know, a version that was never tried, a hook that is not where it was. Nothing runs unguarded
in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, Final

from onejob.errors import UsageError
from onejob.guards import Guard

Attach = Callable[[Any, Guard], object]

#: Under this name the guard is found on what it guards.
MARK: Final = "_onejob_guard"

#: The class that every scheduler of a library is made from, and the module of ours that knows it.
HOOKS: Final = {
    "apscheduler.schedulers.base.BaseScheduler": "apscheduler",
    "flask_apscheduler.scheduler.APScheduler": "apscheduler",
    "celery.app.base.Celery": "celery",
    "celery.beat.Scheduler": "celery",
    "huey.api.Huey": "huey",
    "rq.cron.CronScheduler": "rq",
    "taskiq.scheduler.scheduler.TaskiqScheduler": "taskiq",
    "schedule.Scheduler": "schedule",
}

#: Modules that stand for a scheduler themselves.
MODULES: Final = {"rq.cron": "rq", "schedule": "schedule"}

#: The releases whose hooks were tried: from the first, before the second.
TRIED: Final[dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]]] = {
    "apscheduler": ("APScheduler", (3, 10), (3, 12)),
    "celery": ("celery", (5, 3), (5, 8)),
    "huey": ("huey", (2, 5), (3, 6)),
    "rq": ("rq", (2, 7), (3, 1)),
    "taskiq": ("taskiq", (0, 12), (0, 14)),
    "schedule": ("schedule", (1, 2), (1, 3)),
}

KNOWN: Final = (
    "APScheduler 3 and Flask-APScheduler (the scheduler), Celery (the app), Huey (the instance), "
    "RQ (rq.cron, or a CronScheduler), Taskiq (the TaskiqScheduler), schedule (the module, or a "
    "Scheduler)"
)


def attach(scheduler: object, guard: Guard) -> Guard:
    """Put the guard in the way of every tick of ``scheduler``; return the one that is there."""
    library = _library(scheduler)
    target: Any = _target(scheduler)
    there: Guard | None = vars(target).get(MARK)
    if there is not None:
        if there.like(guard):
            return there
        raise UsageError(
            f"{_shown(scheduler)} is guarded already, by another App or with other options. "
            "Guard a scheduler once."
        )
    check_version(library)
    hook: Attach = import_module(f"onejob.integrations.{library}").attach
    hook(target, guard)
    setattr(target, MARK, guard)
    return guard


def check_version(library: str) -> None:
    """Refuse a release that nobody has tried."""
    package, first, before = TRIED[library]
    try:
        found = version(package)
    except PackageNotFoundError:
        found = "unknown"
    numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:3])
    if not first <= numbers < before:
        raise UsageError(
            f"{package} {found} was never tried with this onejob, so its ticks might go unguarded. "
            f"Install one from {_dotted(first)}, before {_dotted(before)}."
        )


def require(owner: object, *names: str) -> None:
    """Refuse a library whose hook is not where it was."""
    for name in names:
        if not callable(getattr(owner, name, None)):
            what = getattr(owner, "__qualname__", type(owner).__qualname__)
            raise UsageError(
                f"{what} has no {name}() in this release, so its ticks would go unguarded. "
                "Install a release that this onejob knows, or tell us about yours."
            )


def _library(scheduler: object) -> str:
    if isinstance(scheduler, ModuleType):
        if found := MODULES.get(scheduler.__name__):
            return found
    else:
        # __class__, not type(): a proxy, such as celery's current_app, answers for its object.
        for base in scheduler.__class__.__mro__:
            if found := HOOKS.get(f"{base.__module__}.{base.__qualname__}"):
                return found
    raise UsageError(
        f"app.guard() does not know {_shown(scheduler)}. It knows: {KNOWN}. For any other function "
        "that something fires, there is @app.once_per('day')."
    )


def _target(scheduler: Any) -> object:
    """Return what really ticks: the wrapped scheduler, the library's default one."""
    if isinstance(scheduler, ModuleType):
        return scheduler.default_scheduler if scheduler.__name__ == "schedule" else scheduler
    if scheduler.__class__.__module__.startswith("flask_apscheduler."):
        return scheduler.scheduler
    current = getattr(scheduler, "_get_current_object", None)
    return scheduler if current is None else current()


def _shown(scheduler: object) -> str:
    if isinstance(scheduler, ModuleType):
        return f"the module {scheduler.__name__}"
    kind = scheduler.__class__
    return f"an object of {kind.__module__}.{kind.__qualname__}"


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
