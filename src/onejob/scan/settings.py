"""Settings elsewhere in the tree that change what a library's guard is worth.

A source states ``Setting("quartz.jobStore.isClustered", "true", ...)``; the table below says which
kinds it concerns and which guard it gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onejob.scan.facts import Guard, Setting, Trigger
from onejob.scan.finding import Verdict


@dataclass(frozen=True, slots=True)
class Effect:
    """What a setting does to the triggers of some kinds."""

    setting: str
    kinds: tuple[str, ...]
    gives: Verdict
    why: str
    holds: Callable[[str], bool] = lambda value: value.lower() in ("true", "1", "yes", "on")


EFFECTS: tuple[Effect, ...] = (
    Effect(
        "scheduler.in-master",
        ("apscheduler", "flask-apscheduler"),
        Verdict.HOST_ONLY,
        "starts the scheduler in the web server's first process, of which each host has one",
    ),
    Effect(
        "quartz.clustered",
        ("quartz",),
        Verdict.GUARDED,
        "lets the database's lock rows decide which scheduler fires a trigger",
    ),
    Effect(
        "django-crontab.lock-jobs",
        ("django-crontab",),
        Verdict.HOST_ONLY,
        "locks a file on this host; every host has a crontab of its own",
    ),
    Effect(
        "quartz-net.clustered",
        ("quartz-net",),
        Verdict.GUARDED,
        "lets the database's lock rows decide which scheduler fires a trigger",
    ),
    Effect(
        "symfony-scheduler.lock",
        ("symfony-scheduler",),
        Verdict.WEAK_GUARD,
        "lets one worker hold a lock while it fires",
    ),
    Effect(
        "gocron.locker",
        ("gocron",),
        Verdict.WEAK_GUARD,
        "is taken when a timer fires: timers of replicas fire at different moments, and each finds "
        "it free",
        holds=bool,
    ),
    Effect(
        "gocron.elector",
        ("gocron",),
        Verdict.WEAK_GUARD,
        "lets one leader fire; nothing fences a leader that has been replaced",
        holds=bool,
    ),
    Effect(
        "celery.redbeat",
        ("celery-beat", "celery-periodic"),
        Verdict.WEAK_GUARD,
        "lets one beat hold a lock in Redis, which a failover can hand to two",
        holds=bool,
    ),
)

#: A guard that works only when something in the tree switches it on: the settings that do so, by
#: the guard's name, and what it is without.
NEEDS: dict[str, tuple[frozenset[str], str]] = {
    "@SchedulerLock": (
        frozenset(("shedlock.enabled", "shedlock.provider")),
        "has no effect: nothing enables it, or no lock provider is configured",
    ),
}


def adjusted(
    trigger: Trigger, guards: tuple[Guard, ...], settings: tuple[Setting, ...]
) -> tuple[Guard, ...]:
    """Return the guards with those that settings add, and inert ones marked as such."""
    names = {setting.name for setting in settings}
    kept = []
    for guard in guards:
        needed, why = NEEDS.get(guard.name, (frozenset(), ""))
        if not needed <= names and guard.gives is Verdict.GUARDED:
            guard = Guard(guard.name, Verdict.INERT_GUARD, guard.line, why, guard.path)
        kept.append(guard)
    for effect in EFFECTS:
        if trigger.kind not in effect.kinds:
            continue
        for setting in settings:
            if setting.name == effect.setting and effect.holds(setting.value):
                kept.append(
                    Guard(setting.name, effect.gives, setting.line, effect.why, setting.path)
                )
                break
    return tuple(kept)
