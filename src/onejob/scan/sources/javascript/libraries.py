"""Schedulers of JavaScript: node-cron, cron, croner, node-schedule, agenda, BullMQ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onejob.scan import schedules
from onejob.scan.facts import Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.sources.javascript import times
from onejob.scan.sources.javascript.guards import around_start, guards_in, limits
from onejob.scan.sources.javascript.script import (
    FUNCTIONS,
    Script,
    arguments,
    around,
    called,
    entries,
    line_of,
    same,
)
from onejob.scan.syntax import above, children, enclosing, line, nodes

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_BULL = ("bull", "bullmq", "@nestjs/bull", "@nestjs/bullmq", "bee-queue")
_BULL_WHY = (
    "gives each fire time one id in Redis; a changed pattern leaves the old schedule beside the new"
)
_AGENDA_WHY = "locks the job in MongoDB for lockLifetime, and a longer run is started again"
_METEOR_WHY = "keeps one key for each fire time in MongoDB"
_PLATFORM_WHY = "the platform fires it at least once for each fire time"
_ONE_SHOT = re.compile(r"^new Date\b|^Date\b|^\w*[dD]ate\w*$")


@dataclass(frozen=True)
class Found:
    """One schedule before it is a fact."""

    kind: str
    schedule: str
    callback: SgNode | None = None
    name: str = ""
    guards: tuple[Guard, ...] = ()
    alone: Verdict = Verdict.UNGUARDED
    fires: str = "process"
    why: str = ""


def find(script: Script) -> Iterator[tuple[Trigger, SgNode]]:
    """Return the schedules of this file, each with its node."""
    for node in nodes(script.root, "call_expression", "new_expression"):
        found = _call(script, node)
        if found is not None:
            yield fact(script, node, found), node


def fact(script: Script, node: SgNode, found: Found) -> Trigger:
    """Return the trigger that a call is, with what guards its callback."""
    function = script.function(found.callback)
    inside = guards_in(script, function) if function is not None else ()
    target = found.callback.text() if found.callback is not None and function is None else ""
    name = found.name or (target if len(target) < 80 and "(" not in target else "") or around(node)
    return Trigger(
        kind=found.kind,
        path=script.path,
        line=line_of(node),
        language=script.language,
        name=name,
        schedule=found.schedule,
        target=target.replace("this.", "") if re.fullmatch(r"[\w.$]{1,120}", target) else "",
        guards=(*found.guards, *inside, *around_start(script, node), *_stopped(script, node)),
        alone=found.alone,
        fires=found.fires,
        why=found.why,
    )


def _stopped(script: Script, node: SgNode) -> Iterator[Guard]:
    """A task that the lines after it stop again, and that nothing starts."""
    declared = enclosing(node, "variable_declarator", *FUNCTIONS)
    name = declared.field("name") if declared is not None else None
    if declared is None or declared.kind() != "variable_declarator" or name is None:
        return
    stop, start = f"{name.text()}.stop()", f"{name.text()}.start()"
    if stop not in script.file.text or start in script.file.text:
        return
    here = around(node)
    for call in nodes(script.root, "call_expression"):
        if call.text() == stop and around(call) == here and not list(above(call, *FUNCTIONS)):
            yield Guard(stop, Verdict.DORMANT, line(call), "keeps it from firing")


def _call(script: Script, node: SgNode) -> Found | None:
    callee = called(node)
    package, name = script.origin(callee)
    last = callee.replace("?.", ".").rpartition(".")[2]
    given = arguments(node)
    if not given or len(callee) > 200:
        return None
    if node.kind() == "new_expression":
        return _made(script, package, name, given)
    if package == "node-cron" and last in ("schedule", "createTask"):
        return _node_cron(script, given)
    if last == "schedule" and _sounds_like_cron(script, callee, package, given):
        return _node_cron(script, given)
    if package == "croner" and last in ("Cron", "default"):
        return _croner(script, given)
    if (last == "from" and package == "cron") or (last == "from" and name.startswith("CronJob")):
        options = entries(script.value(given[0]))
        return Found(
            "cron-job",
            times.expression(script, options.get("cronTime")),
            options.get("onTick"),
            guards=drawn(script, options.get("cronTime"), node),
        )
    if last == "scheduleJob":
        return _node_schedule(script, given)
    return _queued(script, node, callee, given) or _hosted(script, package, callee, given)


def _made(script: Script, package: str, name: str, given: list[SgNode]) -> Found | None:
    if name == "CronJob" and (package in ("cron", "") or package.startswith((".", "@"))):
        options = entries(script.value(given[0]))
        if options:
            when = options.get("cronTime") or options.get("cronExpression")
            callback = options.get("onTick")
        else:
            when, callback = given[0], given[1] if len(given) > 1 else None
        if when is None or _empty(callback):
            return None
        kind = "toad-scheduler" if package == "toad-scheduler" else "cron-job"
        return Found(
            kind, times.expression(script, when), callback, guards=drawn(script, when, when)
        )
    if package == "croner" or (name == "Cron" and package in ("", "croner")):
        return _croner(script, given)
    if name in ("SimpleIntervalJob", "LongIntervalJob", "CronJob") and package == "toad-scheduler":
        text = times.keyed(script, given[0])
        return Found("toad-scheduler", text, given[1] if len(given) > 1 else None)
    return None


def _empty(callback: SgNode | None) -> bool:
    """A callback that does nothing: the object only checks an expression."""
    if callback is None or callback.text() in ("null", "undefined"):
        return True
    body = callback.field("body") if callback.kind() in FUNCTIONS else None
    return body is not None and body.kind() == "statement_block" and not children(body)


def _node_cron(script: Script, given: list[SgNode]) -> Found:
    options = given[2] if len(given) > 2 else None
    name = script.text(entries(script.value(options)).get("name"))
    guards = (*limits(script, options), *drawn(script, given[0], given[0]))
    callback = given[1] if len(given) > 1 else None
    return Found("node-cron", times.expression(script, given[0]), callback, name, guards)


def _sounds_like_cron(script: Script, callee: str, package: str, given: list[SgNode]) -> bool:
    """``cron.schedule(...)`` of a copy of the library, or of a module that wraps it."""
    if not any(_callable(script, each) for each in given[1:3]):
        return False
    if schedules.is_cron(script.text(given[0])):
        return True
    return callee.lower().endswith("cron.schedule") and "pg" not in package


def _croner(script: Script, given: list[SgNode]) -> Found | None:
    rest = given[1:]
    callback = next(
        (each for each in rest if script.value(each) is not None and _callable(script, each)), None
    )
    if callback is None or _empty(callback):
        return None
    options = next((each for each in rest if entries(script.value(each))), None)
    name = script.text(entries(script.value(options)).get("name"))
    paused = entries(script.value(options)).get("paused")
    guards = drawn(script, given[0], given[0])
    if paused is not None and paused.text() == "true":
        guards = (
            *guards,
            Guard("paused: true", Verdict.DORMANT, line(paused), "until it is resumed"),
        )
    return Found("croner", times.expression(script, given[0]), callback, name, guards)


def _callable(script: Script, node: SgNode) -> bool:
    found = script.value(node)
    kind = found.kind() if found is not None else ""
    return kind in FUNCTIONS or kind in ("identifier", "member_expression", "call_expression")


def _node_schedule(script: Script, given: list[SgNode]) -> Found | None:
    callback = next((each for each in given if _is_function(script, each)), given[-1])
    before = [each for each in given if not same(each, callback)]
    if not before:
        return None
    rule = before[-1]
    name = script.text(before[0]) if len(before) > 1 else ""
    bound = script.value(rule)
    if _ONE_SHOT.search(rule.text()) or (bound is not None and _ONE_SHOT.search(bound.text())):
        return None
    return Found(
        "node-schedule", times.expression(script, rule), callback, name, drawn(script, rule, rule)
    )


def _is_function(script: Script, node: SgNode) -> bool:
    return node.kind() in FUNCTIONS or (
        node.kind() in ("identifier", "member_expression") and script.function(node) is not None
    )


def _queued(script: Script, node: SgNode, callee: str, given: list[SgNode]) -> Found | None:
    last = callee.replace("?.", ".").rpartition(".")[2]
    if last in ("every", "repeatEvery") and ("agenda" in callee.lower() or script.uses("agenda")):
        if script.origin(callee)[0] not in ("", "agenda", "@hokify/agenda") or len(given) < 1:
            return None
        guard = Guard("lockLifetime", Verdict.WEAK_GUARD, line_of(node), _AGENDA_WHY)
        name = script.text(given[1]) if len(given) > 1 else ""
        return Found(
            "agenda", times.expression(script, given[0]), None, name, (guard,), fires="scheduler"
        )
    if last == "upsertJobScheduler" and len(given) > 1:
        repeat = entries(script.value(given[1]))
        return Found(
            "bullmq-scheduler",
            _repeat(script, repeat),
            None,
            script.text(given[0]),
            (Guard("job scheduler id", Verdict.GUARDED, line_of(node), _BULL_WHY),),
            fires="scheduler",
        )
    if last == "add" and _repeats(script, given):
        repeat = next(
            r for each in given if (r := entries(entries(script.value(each)).get("repeat")))
        )
        return Found(
            "bull-repeat",
            _repeat(script, repeat),
            None,
            script.text(given[0]),
            (Guard("repeat key", Verdict.GUARDED, line_of(node), _BULL_WHY),),
            fires="scheduler",
        )
    if callee == "SyncedCron.add":
        options = entries(script.value(given[0]))
        guard = Guard("intendedAt key", Verdict.GUARDED, line_of(node), _METEOR_WHY)
        return Found(
            "synced-cron", "", options.get("job"), script.text(options.get("name")), (guard,)
        )
    return None


def _repeats(script: Script, given: list[SgNode]) -> bool:
    return any(entries(entries(script.value(each)).get("repeat")) for each in given)


def _repeat(script: Script, repeat: dict[str, SgNode]) -> str:
    when = repeat.get("pattern") or repeat.get("cron")
    if when is not None:
        return times.expression(script, when)
    return times.milliseconds(script, repeat.get("every"))


def _hosted(script: Script, package: str, callee: str, given: list[SgNode]) -> Found | None:
    last = callee.replace("?.", ".").rpartition(".")[2]
    if package.startswith("firebase-functions") and last in ("onSchedule", "schedule"):
        options = entries(script.value(given[0])).get("schedule", given[0])
        return _platform(script, options, given[1] if len(given) > 1 else None)
    if callee == "Deno.cron" and len(given) > 2:
        return _platform(script, given[1], given[-1], script.text(given[0]))
    if last == "createFunction" and script.uses("inngest"):
        when = next(
            (
                entries(script.value(e)).get("cron")
                for e in given
                if "cron" in entries(script.value(e))
            ),
            None,
        )
        name = script.text(entries(script.value(given[0])).get("id"))
        return _platform(script, when, given[-1], name) if when is not None else None
    if callee.endswith("schedules.task") and script.uses("@trigger.dev/sdk"):
        task = entries(script.value(given[0]))
        if "cron" in task:
            return _platform(script, task["cron"], task.get("run"), script.text(task.get("id")))
    return None


def _platform(script: Script, when: SgNode, callback: SgNode | None, name: str = "") -> Found:
    return Found(
        "hosted-schedule",
        times.expression(script, when),
        callback,
        name,
        alone=Verdict.AT_LEAST_ONCE,
        fires="platform",
        why=_PLATFORM_WHY,
    )


def drawn(script: Script, when: SgNode | None, place: SgNode) -> tuple[Guard, ...]:
    """Return the guard that a schedule of clock or chance is."""
    if when is not None and times.by_chance(script, when):
        return (Guard("schedule", Verdict.PER_PROCESS_SCHEDULE, line(place)),)
    return ()
