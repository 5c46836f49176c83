"""Orchestrators: Airflow DAGs, Prefect and Dagster schedules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onejob.scan import schedules
from onejob.scan.facts import Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.module import Module, keywords

_NONE = ("@once", "None", "")
_ONE_RUN = "orders the runs; a cleared or retried interval runs again"
_INERT = "has no effect among the defaults of tasks: it belongs to the DAG"


def find(module: Module) -> Iterator[Trigger]:
    """Return what an orchestrator starts by time, by this file."""
    for call in module.calls:
        last = module.name(call.func).rpartition(".")[2]
        if last in ("DAG", "dag") and module.uses("airflow"):
            yield from _dag(module, call)
        elif last == "ScheduleDefinition" and module.uses("dagster"):
            given = keywords(call)
            yield _fact(module, "dagster", call, given, given.get("cron_schedule"))
        elif last in ("serve", "deploy", "build_from_flow") and module.uses("prefect"):
            given = keywords(call)
            when = given.get("cron") or given.get("interval") or given.get("schedule")
            if when is not None:
                yield _fact(module, "prefect", call, given, when)
        elif last == "schedule" and module.uses("dagster") and "cron_schedule" in keywords(call):
            given = keywords(call)
            yield _fact(module, "dagster", call, given, given["cron_schedule"])


def _fact(
    module: Module, kind: str, call: ast.Call, given: dict[str, ast.expr], when: ast.expr | None
) -> Trigger:
    return Trigger(
        kind=kind,
        path=module.path,
        line=call.lineno,
        language="python",
        name=module.text(given.get("name")),
        schedule=timing.span(module, when),
        fires="platform",
        alone=Verdict.AT_LEAST_ONCE,
    )


def _dag(module: Module, call: ast.Call) -> Iterator[Trigger]:
    given = keywords(call)
    when = next(
        (given[k] for k in ("schedule", "schedule_interval", "timetable") if k in given), None
    )
    if when is None:
        return
    value = module.value(when)
    if isinstance(value, ast.Constant) and str(value.value) in _NONE:
        return
    if isinstance(value, ast.List):
        return  # by data sets, not by time
    text = module.text(when)
    guards = []
    one = given.get("max_active_runs")
    if isinstance(one, ast.Constant) and one.value == 1:
        guards.append(Guard("max_active_runs=1", Verdict.NO_OVERLAP, one.lineno, _ONE_RUN))
    paused = given.get("is_paused_upon_creation")
    if isinstance(paused, ast.Constant) and paused.value is True:
        guards.append(Guard("is_paused_upon_creation", Verdict.DISABLED, paused.lineno))
    name = module.text(given.get("dag_id")) or (module.text(call.args[0]) if call.args else "")
    function = module.parents.get(call)
    if not name and isinstance(function, ast.FunctionDef):
        name = function.name
    yield Trigger(
        kind="airflow",
        path=module.path,
        line=call.lineno,
        language="python",
        name=name,
        schedule=schedules.cron(text) or timing.span(module, when),
        guards=tuple(guards) or tuple(_catchup_among_defaults(module, given)),
        fires="platform",
        alone=Verdict.AT_LEAST_ONCE,
        why="one run for each interval, and retries, backfills and clearing run it again",
    )


def _catchup_among_defaults(module: Module, given: dict[str, ast.expr]) -> Iterator[Guard]:
    defaults = module.value(given.get("default_args"))
    for key in defaults.keys if isinstance(defaults, ast.Dict) else ():
        if isinstance(key, ast.Constant) and key.value in ("catchup", "max_active_runs"):
            yield Guard(f"{key.value} in default_args", Verdict.INERT_GUARD, key.lineno, _INERT)
