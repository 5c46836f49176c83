"""What rests on onejob itself, once the whole tree is known: which Apps there are, what they guard.

1. A guard or a schedule that ``needs`` an App is kept where the tree has an App of that name.
2. ``app.guard(scheduler)`` guards the jobs of that scheduler, and the place that starts it. Jobs
   that name no object (Celery's tables, the scheduler of a module) go by the nearest scheduler of
   their library: they are guarded where each of the nearest is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from onejob.scan.facts import (
    Fact,
    Function,
    Guard,
    Guarding,
    Launch,
    Scheduler,
    Setting,
    Trigger,
    Wrapper,
)
from onejob.scan.finding import Verdict

_APP = "onejob.app"
_LIBRARIES = {
    "apscheduler": "apscheduler",
    "flask-apscheduler": "apscheduler",
    "celery-beat": "celery",
    "celery-periodic": "celery",
    "django-celery-beat": "celery",
    "huey": "huey",
    "rq-cron": "rq",
    "taskiq": "taskiq",
    "schedule": "schedule",
}
_MODULES = frozenset(("schedule", "rq.cron"))
_STARTS = ("embedded-scheduler", "scheduler-command")
#: Directories that hold projects, or one, and tell none apart.
_HOLDERS = frozenset(("src", "lib", "app", "apps", "services", "packages", "projects", "backend"))


def settled(facts: list[Fact]) -> list[Fact]:
    """Return the facts with what onejob guards marked as such, and without what needs no App."""
    apps = [fact for fact in facts if isinstance(fact, Setting) and fact.name == _APP]
    guardings = [
        fact
        for fact in facts
        if isinstance(fact, Guarding) and _known(fact.guard.needs, fact.path, apps)
    ]
    ticks = _Ticks(
        tuple(fact for fact in facts if isinstance(fact, Scheduler)),
        tuple(replace(each, guard=_placed(each)) for each in guardings),
    )
    kept = [each for fact in facts for each in _settled(fact, apps, ticks)]
    ours = {(fact.path, fact.line) for fact in kept if _is_ours(fact)}
    return [
        fact
        for fact in kept
        if not (isinstance(fact, Trigger) and fact.kind != "onejob" and _place(fact) in ours)
    ]


def _is_ours(fact: Fact) -> bool:
    return isinstance(fact, Trigger) and fact.kind == "onejob"


def _place(fact: Trigger | Fact) -> tuple[str, int]:
    return fact.path, fact.line


def _settled(fact: Fact, apps: list[Setting], ticks: _Ticks) -> Iterator[Fact]:
    match fact:
        case Guarding() | Scheduler():
            return
        case Trigger():
            if _known(fact.needs, fact.path, apps):
                yield _trigger(fact, apps, ticks)
        case Wrapper():
            yield replace(fact, trigger=_trigger(fact.trigger, apps, ticks))
        case Function() if any(guard.needs for guard in fact.guards):
            yield replace(fact, guards=tuple(_met(fact.guards, fact.path, apps)))
        case Launch():
            yield _launch(fact, ticks)
        case _:
            yield fact


def _trigger(trigger: Trigger, apps: list[Setting], ticks: _Ticks) -> Trigger:
    guards = tuple(_met(trigger.guards, trigger.path, apps))
    library = _LIBRARIES.get(trigger.kind, "")
    over = ticks.guard_of(trigger.scheduler, library, trigger.path) if library else None
    if over is not None:
        guards = (*guards, over)
    return replace(trigger, guards=guards) if guards != trigger.guards else trigger


def _launch(launch: Launch, ticks: _Ticks) -> Launch:
    """A scheduler that is guarded may be started as often as anybody likes."""
    if launch.kind == "scheduler-in-web":
        over = ticks.guard_of(launch.scheduler, "", launch.path)
    elif launch.kind in _STARTS and (library := _library_in(launch.name)):
        over = ticks.guard_of("", library, launch.path)
    else:
        return launch
    if over is None or launch.verdict is Verdict.DISABLED:
        return launch
    why = f"{over.name} ({over.path}:{over.line}) {over.why}"
    return replace(launch, verdict=over.gives, why=why)


def _library_in(name: str) -> str:
    words = name.lower().split()
    return next((each for each in set(_LIBRARIES.values()) if each in words), "")


def _met(guards: Iterable[Guard], path: str, apps: list[Setting]) -> Iterator[Guard]:
    """Keep the guards whose App is there; what was guessed about the same line gives way to it."""
    kept = [guard for guard in guards if _known(guard.needs, path, apps)]
    sure = {guard.line for guard in kept if guard.needs}
    for guard in kept:
        if guard.needs:
            yield replace(guard, needs="")
        elif guard.line not in sure:
            yield guard


def _known(needs: str, path: str, apps: list[Setting]) -> bool:
    return not needs or any(_same(needs, app.value) for app in apps)


def _placed(guarding: Guarding) -> Guard:
    return replace(guarding.guard, path=guarding.path, needs="")


@dataclass(frozen=True)
class _Ticks:
    """The schedulers of a tree, and those that an App was handed."""

    schedulers: tuple[Scheduler, ...]
    guardings: tuple[Guarding, ...]

    def guard_of(self, name: str, library: str, path: str) -> Guard | None:
        """Return what guards the ticks of a scheduler, or of the nearest of a library."""
        if not self.guardings:
            return None
        meant = self._meant(name, path) if name and name not in _MODULES else []
        if meant:
            guards = [self._over(each) for each in meant]
            return guards[0] if all(guards) else None
        return self._nearest(library, path)

    def _meant(self, name: str, path: str) -> list[Scheduler]:
        found = [each for each in self.schedulers if _same(name, each.name)]
        most = max((_common(path, each.path) for each in found), default=0)
        return [each for each in found if _common(path, each.path) == most]

    def _over(self, scheduler: Scheduler) -> Guard | None:
        for each in self.guardings:
            if each.scheduler and scheduler in self._meant(each.scheduler, each.path):
                return each.guard
        return None

    def _nearest(self, library: str, path: str) -> Guard | None:
        places = [
            (each.path, self._over(each))
            for each in self.schedulers
            if not library or each.library == library
        ]
        places += [
            (each.path, each.guard)
            for each in self.guardings
            if (not library or self._library(each) in (library, "")) and _near(path, each.path)
        ]
        most = max((_common(path, place) for place, _ in places), default=0)
        nearest = [(p, guard) for p, guard in places if _common(path, p) == most]
        guards = [guard for _, guard in nearest]
        near = [guard for p, guard in nearest if guard is not None and _near(path, p)]
        return near[0] if near and all(guards) else None

    def _library(self, guarding: Guarding) -> str:
        if guarding.library:
            return guarding.library
        meant = self._meant(guarding.scheduler, guarding.path)
        return meant[0].library if meant else ""


def _same(first: str, second: str) -> bool:
    """Decide whether two dotted names may be of one object: one of them may leave packages out."""
    short, long = sorted((first.split("."), second.split(".")), key=len)
    if short[-1] != long[-1]:
        return False
    rest = iter(long)
    return all(part in rest for part in short)


def _directories(path: str) -> list[str]:
    return [each for each in path.split("/")[:-1] if each not in _HOLDERS]


def _common(first: str, second: str) -> int:
    """Count the directories that two files share; one more where they are one file."""
    count = 0
    for one, other in zip(_directories(first), _directories(second), strict=False):
        if one != other:
            break
        count += 1
    return count + (1_000 if first == second else 0)


def _near(first: str, second: str) -> bool:
    """Decide whether two files may be of one project."""
    one, other = _directories(first), _directories(second)
    return not one or not other or one[0] == other[0]
