"""Schedulers inside a Python process: APScheduler, Flask-APScheduler, schedule, and others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onejob.scan import schedules
from onejob.scan.facts import Guard, Trigger
from onejob.scan.finding import Confidence, Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.identity import identity
from onejob.scan.sources.python.module import Module, argument, entries, keywords

_APS_DECORATORS = {"scheduled_job", "cron_schedule", "interval_schedule"}
_APS_CALLS = {"add_job", "add_cron_job", "add_interval_job"}
_APS = ("apscheduler", "flask_apscheduler", "django_apscheduler", "nonebot_plugin_apscheduler")
_SCHEDULER_NAME = re.compile(r"sched|cron|aps", re.I)
_CONSTRUCTORS = (
    "CronTrigger",
    "IntervalTrigger",
    "CalendarIntervalTrigger",
    "OrTrigger",
    "AndTrigger",
)
_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)+")
_EVERY_UNITS = {
    "second": 1,
    "seconds": 1,
    "minute": 60,
    "minutes": 60,
    "hour": 3_600,
    "hours": 3_600,
    "day": 86_400,
    "days": 86_400,
    "week": 604_800,
    "weeks": 604_800,
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def find(module: Module) -> Iterator[Trigger]:
    """Return the schedules that fire in this file's own process."""
    for call in module.calls:
        yield from _apscheduler(module, call)
        yield from _schedule(module, call)
    yield from _tables(module)
    for function in module.functions:
        for decorator in function.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            yield from _decorated(module, decorator, function)


def _apscheduler(module: Module, call: ast.Call) -> Iterator[Trigger]:
    if not isinstance(call.func, ast.Attribute):
        return
    attr, given = call.func.attr, keywords(call)
    if attr == "add_schedule" and module.uses("apscheduler"):
        yield from _version_4(module, call)
        return
    if attr not in _APS_CALLS:
        return
    receiver = module.name(call.func.value)
    made = module.maker(call.func.value)
    known = made.startswith(_APS) or module.uses(*_APS)
    trigger = argument(call, 1, "trigger")
    # flask_apscheduler takes (id, func, trigger=...); its trigger has a name.
    if trigger is not None and not _is_trigger(module, trigger) and "trigger" in given:
        trigger = given["trigger"]
    if attr == "add_job" and not _recurs(module, trigger, known):
        return
    if not known and not _SCHEDULER_NAME.search(receiver) and attr == "add_job":
        return
    target = argument(call, 0, "func")
    if isinstance(module.value(target), ast.Constant) and "func" in given:
        target = given["func"]
    flask = made.startswith("flask_apscheduler") or module.uses("flask_apscheduler")
    confidence: Confidence = "high" if known else "medium"
    yield Trigger(
        kind="flask-apscheduler" if flask else "apscheduler",
        path=module.path,
        line=call.lineno,
        language="python",
        name=module.text(given.get("id")) or _last(target_name(module, target)),
        schedule=_aps_schedule(module, trigger, given),
        target=target_name(module, target),
        guards=tuple(_chance(module, trigger, given, call.lineno)),
        why=_in_this_process(given, module.value(call.func.value)),
        confidence=confidence,
        scheduler=identity(module, call.func.value),
    )


_PER_PROCESS = ("max_instances", "coalesce", "misfire_grace_time", "executors", "job_defaults")


def _in_this_process(given: dict[str, ast.expr], *more: ast.AST | None) -> str:
    named = dict(given)
    for made in more:
        if isinstance(made, ast.Call):
            named.update(keywords(made))
    limits = [name for name in _PER_PROCESS if name in named]
    if not limits:
        return ""
    return (
        f"every process that loads this fires it: {', '.join(limits)} are per-process only and say "
        "nothing to another replica"
    )


def _is_trigger(module: Module, node: ast.AST | None) -> bool:
    made = module.maker(node) if node is not None else ""
    return module.text(node) in ("cron", "interval", "date") or made.endswith(_CONSTRUCTORS)


def _recurs(module: Module, trigger: ast.AST | None, known: bool) -> bool:
    if trigger is None:
        return False
    text = module.text(trigger)
    if text:
        return text in ("cron", "interval", "calendarinterval")
    made = module.maker(trigger)
    if made.endswith("DateTrigger") or isinstance(module.value(trigger), ast.Constant):
        return False
    if made.endswith(_CONSTRUCTORS) or "from_crontab" in made:
        return True
    return known and not isinstance(trigger, ast.Lambda)


def _aps_schedule(module: Module, trigger: ast.AST | None, given: dict[str, ast.expr]) -> str:
    followed = module.value(trigger)
    if isinstance(followed, ast.Call):
        name = module.name(followed.func)
        inner = keywords(followed)
        if name.endswith("from_crontab"):
            text = module.text(argument(followed, 0, "expr"))
            return schedules.cron(text) or timing.computed(module, argument(followed, 0, "expr"))
        if name.endswith("IntervalTrigger"):
            return timing.interval(module, inner)
        return timing.cron_fields(module, inner)
    text = module.text(trigger)
    if text == "interval":
        return timing.interval(module, given)
    if text == "cron" or any(field in given for field in ("hour", "minute", "day_of_week")):
        return timing.cron_fields(module, given)
    return timing.interval(module, given) or timing.computed(module, trigger)


def _chance(
    module: Module, trigger: ast.AST | None, given: dict[str, ast.expr], line: int
) -> Iterator[Guard]:
    fields = [given[name] for name in (*timing.CRON_FIELDS, *timing.UNITS) if name in given]
    followed = module.value(trigger)
    if isinstance(followed, ast.Call):
        inner = keywords(followed)
        fields += [inner[name] for name in (*timing.CRON_FIELDS, *timing.UNITS) if name in inner]
    if timing.by_chance(module, *fields):
        yield Guard("schedule", Verdict.PER_PROCESS_SCHEDULE, line)


def _version_4(module: Module, call: ast.Call) -> Iterator[Trigger]:
    if not isinstance(call.func, ast.Attribute):
        return
    trigger, target = argument(call, 1, "trigger"), argument(call, 0, "func_or_task_id")
    name = target_name(module, target)
    yield Trigger(
        kind="apscheduler-4",
        path=module.path,
        line=call.lineno,
        language="python",
        name=module.text(argument(call, -1, "id")) or _last(name),
        schedule=_aps_schedule(module, trigger, keywords(call)),
        target=name,
        guards=(_data_store(module, call.func.value, call.lineno),),
    )


def _data_store(module: Module, scheduler: ast.expr, line: int) -> Guard:
    made = module.value(scheduler)
    store = argument(made, 0, "data_store") if isinstance(made, ast.Call) else None
    if store is None or module.maker(store).endswith("MemoryDataStore"):
        return Guard(
            "data store", Verdict.WEAK_GUARD, line, "is this process's memory: replicas share none"
        )
    return Guard("data store", Verdict.GUARDED, line, "is shared, and keeps one job a fire time")


def _schedule(module: Module, call: ast.Call) -> Iterator[Trigger]:
    """``schedule.every(10).minutes.do(job)``, and the like of it on a Scheduler of one's own."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "do"):
        return
    chain = list(_chain(call.func.value))
    first = next(
        (c for c in chain if isinstance(c, ast.Call) and _last(module.name(c)) == "every"), None
    )
    if first is None and not any(isinstance(c, ast.Attribute) and c.attr == "every" for c in chain):
        return
    target = target_name(module, argument(call, 0, "job_func"))
    yield Trigger(
        kind="schedule",
        path=module.path,
        line=call.func.value.end_lineno or call.lineno,
        language="python",
        name=_last(target),
        schedule=_every(module, chain),
        target=target,
        scheduler=_default(module, chain),
    )


def _default(module: Module, chain: list[ast.AST]) -> str:
    """Return the Scheduler before ``every``; the library's own where there is none."""
    for node in chain:
        if isinstance(node, ast.Attribute) and node.attr == "every":
            return identity(module, node.value)
    return "schedule"


def _chain(node: ast.AST) -> Iterator[ast.AST]:
    for _ in range(30):
        match node:
            case ast.Call(func=function):
                yield node
                node = function
            case ast.Attribute(value=value):
                yield node
                node = value
            case _:
                return


def _every(module: Module, chain: list[ast.AST]) -> str:
    amount: float | None = 1.0
    unit, at = "", ""
    for node in chain:
        match node:
            case ast.Call(func=ast.Attribute(attr="at")) as call:
                at = module.text(argument(call, 0, "time_str"))
            case ast.Call(func=ast.Attribute(attr="every") | ast.Name()) as call:
                if call.args:
                    amount = timing.number(module, call.args[0])
            case ast.Attribute(attr=attr) if attr in _EVERY_UNITS or attr in _DAYS:
                unit = attr
            case _:
                pass
    if amount is None or not unit:
        return ""
    if unit in _DAYS:
        hour, minute = (at or "0:0").split(":")[:2] if ":" in at or not at else ("", "")
        if not (hour.isdigit() and minute.isdigit()):
            return unit
        return f"{int(minute)} {int(hour)} * * {unit[:3]}"
    text = schedules.every(amount * _EVERY_UNITS[unit])
    return f"{text} at {at}" if at and len(at) <= 8 else text


def _tables(module: Module) -> Iterator[Trigger]:
    """Tables of Flask-APScheduler: ``JOBS = [{"id": ..., "func": ..., "trigger": ...}]``."""
    flask = module.uses("flask_apscheduler")
    for node in module.dicts:
        given = entries(node)
        if not {"func", "trigger"} <= given.keys():
            continue
        if not (flask or module.uses("apscheduler") or _under_jobs(module, node)):
            continue
        trigger = entries(given["trigger"]) or {"type": given["trigger"], **given}
        kind = module.text(trigger.get("type"))
        if kind not in ("cron", "interval"):
            continue
        target = module.text(given["func"]) or module.name(given["func"])
        made = timing.interval if kind == "interval" else timing.cron_fields
        yield Trigger(
            kind="flask-apscheduler",
            path=module.path,
            line=node.lineno,
            language="python",
            name=module.text(given.get("id")) or _last(target),
            schedule=made(module, trigger),
            target=target,
            guards=tuple(_chance(module, None, trigger, node.lineno)),
        )


def _under_jobs(module: Module, node: ast.AST) -> bool:
    for above in module.above(node):
        if isinstance(above, ast.Assign):
            return any("JOBS" in ast.unparse(target).upper() for target in above.targets)
    return False


def _decorated(
    module: Module, decorator: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Trigger]:
    name = module.name(decorator.func)
    last, given = _last(name), keywords(decorator)
    first = argument(decorator, 0, "trigger")
    kind, schedule = "", ""
    if last in _APS_DECORATORS:
        kind = "apscheduler"
        schedule = _aps_schedule(module, first, given)
        if last == "scheduled_job" and not _recurs(module, first, known=True):
            return
    elif last == "task" and module.text(first) in ("cron", "interval"):
        kind, schedule = "flask-apscheduler", _aps_schedule(module, first, given)
    elif last in ("repeat_every", "repeat_at", "repeat") and _library(name):
        kind, schedule = "repeat-every", _repeat(module, decorator, last)
        if last == "repeat":
            kind, schedule = "schedule", _every(module, list(_chain(first)) if first else [])
    elif last in ("task", "cond") and module.uses("rocketry") and last == "task" and decorator.args:
        kind, schedule = "rocketry", module.text(first)[: schedules.CHARACTERS_MAX]
    elif last == "crontab" and module.uses("aiocron"):
        kind, schedule = "cron-job", schedules.cron(module.text(first))
    elif name.endswith("tasks.loop") and module.uses("discord", "nextcord", "disnake"):
        kind, schedule = "repeat-every", timing.interval(module, given)
    if kind:
        yield Trigger(
            kind=kind,
            path=module.path,
            line=decorator.lineno,
            language="python",
            name=module.text(given.get("id")) or function.name,
            schedule=schedule,
            target=module.qualified(function),
            marks=module.marks(function),
            guards=tuple(_chance(module, first, given, decorator.lineno)),
            why=_in_this_process(given),
            scheduler="schedule"
            if last == "repeat"
            else identity(module, decorator.func.value)
            if isinstance(decorator.func, ast.Attribute)
            else "",
        )


def _library(name: str) -> bool:
    return "." in name or name in ("repeat_every", "repeat")


def _repeat(module: Module, decorator: ast.Call, last: str) -> str:
    given = keywords(decorator)
    if last == "repeat_at":
        return schedules.cron(module.text(argument(decorator, 0, "cron")))
    return timing.interval(module, given) or timing.span(module, argument(decorator, 0))


def target_name(module: Module, node: ast.AST | None) -> str:
    """Return the dotted name of the function that a schedule runs, out of partials and lambdas."""
    match node:
        case None:
            return ""
        case ast.Constant(value=str(text)):
            # Only what is spelt like a function's full name: any other text may be a secret.
            return text.replace(":", ".") if _REFERENCE.fullmatch(text) else ""
        case ast.Lambda(body=ast.Call(func=function)):
            return module.name(function)
        case ast.Call(func=function, args=[first, *_]) if module.name(function).endswith("partial"):
            return module.name(first)
        case ast.Call(func=ast.Attribute(attr="s" | "si" | "signature" | "delay", value=task)):
            return module.name(task)
        case _:
            return module.name(node)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
