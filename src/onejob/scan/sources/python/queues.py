"""Task queues with schedules of their own: huey, dramatiq, arq, rq, taskiq, procrastinate."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from onejob.scan import schedules
from onejob.scan.facts import Fact, Guard, Setting, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.identity import identity
from onejob.scan.sources.python.module import FunctionNode, Module, argument, entries, keywords
from onejob.scan.sources.python.scheduling import target_name

_ARQ_WHY = "keeps one key in Redis for each fire time; a failover can forget it"
_RQ_WHY = "names the entry, so that a second start finds it, under the scheduler's own lock"
_DEFER_WHY = "defers each fire time once, by a unique key in PostgreSQL"


def find(module: Module) -> Iterator[Fact]:
    """Return the schedules of this file that a task queue's own process fires."""
    for function in module.functions:
        for decorator in function.decorator_list:
            yield from _decorated(module, decorator, function)
    for call in module.calls:
        yield from _call(module, call)
    yield from _rq_tables(module)
    yield from _django(module)


def _fact(
    module: Module,
    kind: str,
    line: int,
    name: str,
    schedule: str,
    target: str,
    *guards: Guard,
    marks: tuple[str, ...] = (),
) -> Trigger:
    return Trigger(
        kind=kind,
        path=module.path,
        line=line,
        language="python",
        name=name or target.rpartition(".")[2],
        schedule=schedule,
        target=target,
        marks=marks,
        guards=guards,
        fires="scheduler",
    )


def _decorated(module: Module, decorator: ast.expr, function: FunctionNode) -> Iterator[Trigger]:
    if not isinstance(decorator, ast.Call):
        return
    name, given, line = module.name(decorator.func), keywords(decorator), decorator.lineno
    last = name.rpartition(".")[2]
    target, marks = module.qualified(function), module.marks(function)

    def fact(kind: str, schedule: str, *guards: Guard) -> Trigger:
        found = _fact(module, kind, line, function.name, schedule, target, *guards, marks=marks)
        # Taskiq's broker is not what fires.
        owner = decorator.func if kind == "huey" else None
        if isinstance(owner, ast.Attribute):
            return replace(found, scheduler=identity(module, owner.value))
        return found

    if last in ("periodic_task", "db_periodic_task") and not module.uses("celery"):
        first = argument(decorator, 0, "validate_datetime")
        if first is not None:
            yield fact("huey", timing.span(module, first))
    elif last == "periodic" and "cron" in given:
        guard = Guard("deferred once", Verdict.GUARDED, line, _DEFER_WHY)
        yield fact("procrastinate", schedules.cron(module.text(given["cron"])), guard)
    elif last == "cron" and (module.uses("dramatiq_crontab", "django_dramatiq", "remoulade")):
        yield fact("dramatiq-crontab", _cron_text(module, argument(decorator, 0)))
    elif last == "actor" and "periodic" in given:
        yield fact("dramatiq-crontab", _cron_text(module, given["periodic"]))
    elif (last == "task" and "schedule" in given and module.uses("taskiq")) or (
        last == "task" and isinstance(given.get("schedule"), ast.List)
    ):
        yield fact("taskiq", _taskiq(module, given["schedule"]))
    elif last == "job" and isinstance(given.get("cron"), ast.Constant) and module.uses("django_rq"):
        yield fact("rq-scheduler", schedules.cron(module.text(given["cron"])))


def _cron_text(module: Module, node: ast.AST | None) -> str:
    value = module.value(node)
    if isinstance(value, ast.Call):
        text = module.text(argument(value, 0, "spec", "expr"))
        return schedules.cron(text) or timing.crontab(module, value)
    return schedules.cron(module.text(node))


def _taskiq(module: Module, node: ast.AST) -> str:
    value = module.value(node)
    found = []
    for each in value.elts if isinstance(value, ast.List | ast.Tuple) else ():
        given = entries(each)
        if "cron" in given:
            found.append(schedules.cron(module.text(given["cron"])))
        elif "interval" in given:
            found.append(timing.span(module, given["interval"]))
    return "; ".join(filter(None, found))


def _call(module: Module, call: ast.Call) -> Iterator[Trigger]:
    name, given, line = module.name(call.func), keywords(call), call.lineno
    last = name.rpartition(".")[2]
    if last == "cron" and module.uses("arq"):
        target = target_name(module, argument(call, 0, "coroutine"))
        unique = given.get("unique")
        keyed = not (isinstance(unique, ast.Constant) and unique.value is False)
        guard = Guard("unique=True", Verdict.GUARDED, line, _ARQ_WHY)
        schedule = timing.cron_fields(module, {**given, **_weekday(given)}) or "0 0 * * *"
        yield _fact(
            module,
            "arq",
            line,
            module.text(given.get("name")),
            schedule,
            target,
            *([guard] if keyed else []),
        )
    elif last in ("cron", "schedule") and _is_rq(module, call):
        function = argument(call, 1, "func")
        if function is None or any(keyword.arg is None for keyword in call.keywords):
            return  # the table that feeds it is reported instead
        first = argument(call, 0, "cron_string", "scheduled_time")
        if last == "cron":
            schedule = schedules.cron(module.text(first)) or timing.computed(module, first)
        elif "interval" in given:
            schedule = timing.span(module, given["interval"])
        else:
            return
        guards = (Guard("id=", Verdict.GUARDED, line, _RQ_WHY),) if "id" in given else ()
        target = target_name(module, function)
        yield _fact(module, "rq-scheduler", line, "", schedule, target, *guards)
    elif last == "register" and _is_rq_cron(module, call):
        schedule = schedules.cron(module.text(given.get("cron")))
        schedule = schedule or timing.span(module, given.get("interval"))
        target = target_name(module, argument(call, 0, "func"))
        yield _fact(module, "rq-cron", line, module.text(given.get("name")), schedule, target)
    elif name.endswith("Schedule.objects.create") or (
        "Schedule.objects." in name and last in ("get_or_create", "update_or_create")
    ):
        if module.uses("django_q", "django_q2"):
            yield _django_q(module, call)
    elif name == "django_q.tasks.schedule":
        yield _django_q(module, call)
    elif last == "configure_task" and "schedule" in given:
        yield _fact(module, "procrastinate", line, "", timing.span(module, given["schedule"]), "")


def _weekday(given: dict[str, ast.expr]) -> dict[str, ast.expr]:
    return {"day_of_week": given["weekday"]} if "weekday" in given else {}


def _is_rq(module: Module, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    made = module.maker(call.func.value)
    return (
        "rq_scheduler" in made
        or "django_rq" in made
        or (module.uses("rq_scheduler", "django_rq") and "sched" in made.lower())
    )


def _is_rq_cron(module: Module, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute):
        return module.maker(call.func.value).startswith("rq.cron")
    return module.name(call.func).startswith("rq.cron.")


def _django_q(module: Module, call: ast.Call) -> Trigger:
    given = {**keywords(call), **entries(keywords(call).get("defaults"))}
    function = given.get("func") or argument(call, 0, "func")
    kind = module.name(given.get("schedule_type")).rpartition(".")[2].lower()
    schedule = schedules.cron(module.text(given.get("cron")))
    if not schedule and "minutes" in given:
        schedule = timing.interval(module, {"minutes": given["minutes"]})
    target = module.text(function)
    name = module.text(given.get("name"))
    return _fact(module, "django-q", call.lineno, name, schedule or kind, target)


def _rq_tables(module: Module) -> Iterator[Trigger]:
    """A list of dicts that is handed to an rq scheduler: each dict is a schedule."""
    if not module.uses("rq_scheduler", "django_rq"):
        return
    fixed = any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("schedule", "cron")
        and any(keyword.arg in ("id", "job_id") for keyword in call.keywords)
        for call in module.calls
    )
    for node in module.dicts:
        given = entries(node)
        function = given.get("func") or given.get("function")
        period = next((given[k] for k in ("interval", "cron", "cron_string") if k in given), None)
        if function is None or period is None:
            continue
        guards = (Guard("id=", Verdict.GUARDED, node.lineno, _RQ_WHY),) if fixed else ()
        target = module.text(function) or module.name(function)
        schedule = timing.span(module, period)
        yield _fact(module, "rq-scheduler", node.lineno, "", schedule, target, *guards)


def _django(module: Module) -> Iterator[Fact]:
    for assignment in module.assignments:
        targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if "CRONJOBS" in names and assignment.value is not None:
            yield from _crontab_table(module, assignment.value)
        if "CRONTAB_LOCK_JOBS" in names and assignment.value is not None:
            value = str(getattr(assignment.value, "value", ""))
            yield Setting("django-crontab.lock-jobs", value, module.path, assignment.lineno)
    for node in module.classes:
        if any(module.name(parent).endswith("CronJobBase") for parent in node.bases):
            yield from _cron_class(module, node)


def _crontab_table(module: Module, value: ast.expr) -> Iterator[Trigger]:
    if isinstance(value, ast.BinOp):
        yield from _crontab_table(module, value.left)
        value = value.right
    for row in value.elts if isinstance(value, ast.List | ast.Tuple) else ():
        if isinstance(row, ast.Tuple | ast.List) and len(row.elts) >= 2:
            target = module.text(row.elts[1])
            schedule = schedules.cron(module.text(row.elts[0]))
            found = _fact(module, "django-crontab", row.lineno, "", schedule, target)
            yield Trigger(
                kind=found.kind,
                path=found.path,
                line=found.line,
                language="python",
                name=found.name,
                schedule=schedule,
                target=target,
                fires="host",
            )


def _cron_class(module: Module, node: ast.ClassDef) -> Iterator[Trigger]:
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="schedule")], value=ast.Call() as made):
                given = keywords(made)
                minutes = {"minutes": given["run_every_mins"]} if "run_every_mins" in given else {}
                schedule = (
                    timing.interval(module, minutes)
                    if minutes
                    else "at "
                    + ", ".join(
                        module.text(each)
                        for each in getattr(module.value(given.get("run_at_times")), "elts", [])
                    )
                )
                guard = Guard(
                    "cache lock",
                    Verdict.WEAK_GUARD,
                    statement.lineno,
                    "is a key in the cache backend, which may be of one process, and lapses",
                )
                target = f"{module.dotted}.{node.name}.do"
                yield _fact(
                    module,
                    "django-cron",
                    node.lineno,
                    node.name,
                    schedule.strip(" ,"),
                    target,
                    guard,
                )
            case _:
                continue
