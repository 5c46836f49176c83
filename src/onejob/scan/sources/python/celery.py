"""Celery: beat's entries in all their spellings, periodic tasks, rows for a database scheduler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onejob.scan.facts import Fact, Guard, Setting, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.module import Module, argument, entries, keywords
from onejob.scan.sources.python.scheduling import target_name

_SCHEDULERS = ("beat_scheduler", "CELERY_BEAT_SCHEDULER", "CELERYBEAT_SCHEDULER")
_ROWS = ("create", "get_or_create", "update_or_create", "aget_or_create", "acreate")
_TABLES = ("schedule", "beat", "periodic", "jobs", "cron")


def find(module: Module) -> Iterator[Fact]:
    """Return what beat fires, by this file."""
    yield from _entries(module)
    for call in module.calls:
        yield from _call(module, call)
    for function in module.functions:
        for decorator in function.decorator_list:
            name = module.name(decorator)
            if name.rpartition(".")[2] == "periodic_task" and not module.uses(
                "huey", "procrastinate"
            ):
                given = (
                    argument(decorator, 0, "run_every") if isinstance(decorator, ast.Call) else None
                )
                if given is None:
                    continue
                yield Trigger(
                    kind="celery-periodic",
                    path=module.path,
                    line=decorator.lineno,
                    language="python",
                    name=function.name,
                    schedule=timing.span(module, given),
                    target=module.qualified(function),
                    marks=module.marks(function),
                    fires="scheduler",
                )
    for node in module.classes:
        if any(module.name(base).endswith("PeriodicTask") for base in node.bases):
            yield from _periodic_class(module, node)
    for assignment in module.assignments:
        yield from _scheduler_setting(module, assignment)


def _periodic_class(module: Module, node: ast.ClassDef) -> Iterator[Trigger]:
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="run_every")], value=value):
                yield Trigger(
                    kind="celery-periodic",
                    path=module.path,
                    line=node.lineno,
                    language="python",
                    name=node.name,
                    schedule=timing.span(module, value),
                    target=f"{module.dotted}.{node.name}.run",
                    fires="scheduler",
                )
            case _:
                continue


def _entries(module: Module) -> Iterator[Trigger]:
    nodes: list[ast.Dict | ast.Call] = [*module.dicts, *module.calls]
    for node in nodes:
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id == "dict"
        ):
            continue
        given = entries(node)
        if not {"task", "schedule"} <= given.keys() or not _beats(module, node):
            continue
        task = module.text(given["task"]) or module.name(given["task"])
        name, line = _key(module, node)
        yield Trigger(
            kind="celery-beat",
            path=module.path,
            line=line,
            language="python",
            name=name or task,
            schedule=timing.span(module, given["schedule"]),
            target=task,
            guards=_chance(module, given["schedule"]),
            fires="scheduler",
        )


def _chance(module: Module, when: ast.expr) -> tuple[Guard, ...]:
    if timing.by_chance(module, when):
        return (Guard("schedule", Verdict.PER_PROCESS_SCHEDULE, when.lineno),)
    return ()


def _beats(module: Module, node: ast.AST) -> bool:
    """Decide whether a dict with a task and a schedule is one of beat's."""
    if module.uses("celery", "django_celery_beat", "kombu", "redbeat"):
        return True
    for above in module.above(node):
        match above:
            case ast.Assign(targets=targets):
                names = " ".join(ast.unparse(target) for target in targets).lower()
                return any(word in names for word in _TABLES)
            case ast.AnnAssign(target=target):
                return any(word in ast.unparse(target).lower() for word in _TABLES)
            case ast.keyword(arg=str(name)):
                if "beat" in name:
                    return True
            case _:
                continue
    return False


def _key(module: Module, node: ast.AST) -> tuple[str, int]:
    """Return the entry's name and its line: its key in the table, or what it is assigned to."""
    line = getattr(node, "lineno", 1)
    parent = module.parents.get(node)
    match parent:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if value is node and key is not None:
                    return module.text(key) or module.name(key), key.lineno
        case ast.Assign(targets=[ast.Subscript(slice=key)]):
            return module.text(key), parent.lineno
        case _:
            pass
    return "", line


def _call(module: Module, call: ast.Call) -> Iterator[Fact]:
    name = module.name(call.func)
    last = name.rpartition(".")[2]
    if last == "add_periodic_task":
        signature = argument(call, 1, "sig")
        yield Trigger(
            kind="celery-periodic",
            path=module.path,
            line=call.lineno,
            language="python",
            name=module.text(argument(call, 5, "name"))
            or target_name(module, signature).rpartition(".")[2],
            schedule=timing.span(module, argument(call, 0, "schedule")),
            target=target_name(module, signature),
            fires="scheduler",
        )
    elif "PeriodicTask.objects" in name and last in _ROWS:
        given = {**keywords(call), **entries(keywords(call).get("defaults"))}
        yield Trigger(
            kind="django-celery-beat",
            path=module.path,
            line=call.lineno,
            language="python",
            name=module.text(given.get("name")) or module.text(given.get("task")),
            schedule=_row(module, given),
            target=module.text(given.get("task")),
            fires="scheduler",
        )
    elif last == "RedBeatSchedulerEntry" and len(call.args) >= 3:
        yield Trigger(
            kind="celery-beat",
            path=module.path,
            line=call.lineno,
            language="python",
            name=module.text(call.args[0]),
            schedule=timing.span(module, call.args[2]),
            target=module.text(call.args[1]),
            fires="scheduler",
        )


def _row(module: Module, given: dict[str, ast.expr]) -> str:
    for key in ("crontab", "interval", "solar", "clocked"):
        made = module.value(given.get(key))
        if isinstance(made, ast.Subscript):
            made = made.value
        if isinstance(made, ast.Call):
            inner = {**keywords(made), **entries(keywords(made).get("defaults"))}
            if key == "crontab":
                return timing.crontab(
                    module,
                    ast.Call(
                        func=made.func,
                        args=[],
                        keywords=[
                            ast.keyword(arg=name, value=value) for name, value in inner.items()
                        ],
                    ),
                )
            unit = module.name(inner.get("period")).rpartition(".")[2].lower()
            if unit in timing.UNITS and "every" in inner:
                return timing.interval(module, {unit: inner["every"]})
    return ""


def _scheduler_setting(module: Module, assignment: ast.Assign | ast.AnnAssign) -> Iterator[Setting]:
    targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
    for target in targets:
        if ast.unparse(target).endswith(_SCHEDULERS) and assignment.value is not None:
            value = module.text(assignment.value)
            if "redbeat" in value.lower():
                yield Setting("celery.redbeat", value, module.path, assignment.lineno)
