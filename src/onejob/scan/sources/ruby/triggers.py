"""Places in Ruby that start work by time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from onejob.scan.bodies import for_a_person, for_itself, for_waiting, guards_in, supervises
from onejob.scan.facts import Fact, Function, Guard, Trigger
from onejob.scan.finding import Confidence, Verdict
from onejob.scan.schedules import cron, never
from onejob.scan.sources.ruby.script import Call, Script, called, schedule, written
from onejob.scan.syntax import enclosing, line, literal, nodes

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_RUFUS = ("every", "cron", "interval", "schedule_every", "schedule_cron", "schedule_interval")
_WHENEVER = re.compile(
    r"\b(?:rake|runner|command|script|rails_runner|bundle_\w+|job_type|\w*_task)\b"
)
_FILE_LOCK = re.compile(r"\block_?file:|\bflock\b|FileLock|:lockfile\s*=>")
#: Names as short as this are defined everywhere.
SHORT_NAME = 3
_SHARED_LOCK = re.compile(r"\b(?:scheduler_lock|trigger_lock):")


def triggers(script: Script) -> Iterator[Fact]:
    """Return the triggers of a file and the methods that guard what they call."""
    text = script.file.text
    found = [*_scheduled(script, text), *_loops(script)]
    yield from found
    if found or re.search(
        r"with_advisory_lock|skip\s+locked|redlock|with_lock|\.synchronize", text, re.I
    ):
        yield from _methods(script, here=bool(found))


def _scheduled(script: Script, text: str) -> Iterator[Trigger]:
    name = script.file.name.lower()
    clockwork = "Clockwork" in text
    rufus = "ufus" in text
    locks, flock = tuple(_rufus_locks(text)), _flock_line(text)
    whenever = (not clockwork and name.startswith("schedule")) or "set :output" in text
    for call in script.calls:
        if clockwork and call.name == "every" and len(call.arguments) >= 2:
            yield _clockwork(script, call)
        elif call.name in _RUFUS and call.block and _is_rufus(call, rufus=rufus):
            if supervises(*called(call.node.field("block"))[:1]):
                continue
            yield _rufus(script, call, locks)
        elif whenever and call.name == "every" and call.block and _WHENEVER.search(call.block):
            yield _whenever(script, call, flock)
        else:
            yield from _library(script, call)
    yield from _assigned(script)


def _is_rufus(call: Call, *, rufus: bool) -> bool:
    if rufus:
        return bool(call.arguments)
    named = re.search(r"scheduler$", call.receiver, re.IGNORECASE)
    return named is not None and bool(call.arguments) and bool(schedule(call.arguments[0]))


def _trigger(
    script: Script,
    call: Call,
    kind: str,
    *,
    name: str = "",
    when: str = "",
    guards: tuple[Guard, ...] = (),
    alone: Verdict = Verdict.UNGUARDED,
    fires: str = "process",
    why: str = "",
    words: tuple[str, ...] = (),
    confidence: Confidence = "high",
) -> Trigger:
    inside = called(call.node.field("block"))
    target = inside[0] if inside else name
    when_guards = (Guard(when, Verdict.NEVER, call.line),) if when and never(when) else ()
    return Trigger(
        kind=kind,
        path=script.file.path,
        line=call.line,
        language="ruby",
        name=name or target,
        schedule=when,
        target=target,
        marks=inside[1:6],
        guards=(*when_guards, *guards, *guards_in(call.block, call.block_line)),
        alone=alone,
        fires=fires,
        why=why,
        words=words,
        confidence=confidence,
    )


def _rufus_locks(text: str) -> Iterator[Guard]:
    for pattern, gives, why in (
        (
            _SHARED_LOCK,
            Verdict.WEAK_GUARD,
            "asks a lock before each run; it is yours to make right",
        ),
        (_FILE_LOCK, Verdict.HOST_ONLY, "is a file of this host"),
    ):
        match = pattern.search(text)
        if match:
            number = text.count("\n", 0, match.start()) + 1
            yield Guard(match[0].strip(": "), gives, number, why)


def _rufus(script: Script, call: Call, locks: tuple[Guard, ...]) -> Trigger:
    inside = called(call.node.field("block"))
    own = for_itself(*inside[:2]) if len(inside) <= 2 else ""
    return _trigger(
        script,
        call,
        "rufus",
        when=schedule(call.arguments[0]),
        guards=locks,
        alone=Verdict.PER_PROCESS_OK if own else Verdict.UNGUARDED,
        why=f"it calls {own}, which serves its own process" if own else "",
    )


def _clockwork(script: Script, call: Call) -> Trigger:
    at = literal(call.option("at"))
    when = schedule(call.arguments[0])
    return _trigger(
        script,
        call,
        "clockwork",
        name=literal(call.arguments[1])[:60],
        when=f"{when} at {at}" if at else when,
        fires="scheduler",
        words=("clockwork",),
    )


def _flock_line(text: str) -> int:
    """Return where every command of the file is put under a file lock; 0 for nowhere."""
    match = re.search(r"(?m)^[ \t]*(?:set[ \t]+:job_template|job_type[ \t]).*\bflock\b", text)
    return text.count("\n", 0, match.start()) + 1 if match else 0


def _whenever(script: Script, call: Call, flock: int) -> Trigger:
    when = schedule(call.arguments[0]) if call.arguments else ""
    at = literal(call.option("at"))
    guards = []
    if "roles" in call.options:
        why = "limits it to hosts of these roles; two such hosts run it twice"
        guards.append(Guard("roles", Verdict.HOST_ONLY, call.line, why))
    number = call.line if re.search(r"\bflock\b", call.block) else flock
    if number:
        guards.append(Guard("flock", Verdict.HOST_ONLY, number, "locks a file on this host"))
    named = re.search(r"\b(?:rake|runner|command|script)\b\s*\(?\s*[\"']([\w:.!?]+)", call.block)
    return _trigger(
        script,
        call,
        "whenever",
        name=named[1][:60] if named else "",
        when=f"{when} at {at}" if at else when,
        guards=tuple(guards),
        fires="host",
        why="it is in the crontab of every host that is deployed to",
    )


_SIDEKIQ_WHY = "its library adds one entry to Redis for each fire time"


def _library(script: Script, call: Call) -> Iterator[Trigger]:
    match call.name:
        case "create" | "new" if call.receiver.endswith("Sidekiq::Cron::Job"):
            yield _keyed(script, call, "sidekiq-cron", call.option("cron"), call.option("name"))
        case "load_from_hash" | "load_from_hash!" if call.receiver.endswith("Sidekiq::Cron::Job"):
            yield from _table(script, call.node.field("arguments"), "sidekiq-cron", _SIDEKIQ_WHY)
        case "set_schedule" if call.receiver in ("Sidekiq", "Resque"):
            given = re.search(r"(?:cron|every):?\s*[\"'=>]*\s*[\"']([^\"']+)", call.node.text())
            kind = "sidekiq-scheduler" if call.receiver == "Sidekiq" else "resque-scheduler"
            name = call.arguments[0] if call.arguments else ""
            yield _keyed(script, call, kind, f'"{given[1]}"' if given else "", name)
        case "register" if "periodic" in script.file.text and len(call.arguments) >= 2:
            if cron(literal(call.arguments[0])):
                yield _keyed(script, call, "sidekiq-cron", *call.arguments[:2])
        case "cron" if call.receiver == "Delayed::Periodic" and len(call.arguments) >= 2:
            why = "its library locks one row for each job"
            yield _keyed(
                script, call, "delayed-periodic", call.arguments[1], call.arguments[0], why
            )
        case "set" if "cron" in call.options and cron(literal(call.option("cron"))):
            why = "its library keeps one row, which each run puts off to the next fire time"
            yield _keyed(script, call, "delayed-cron", call.option("cron"), call.receiver, why)
        case "every" if call.receiver.startswith("Crono.perform"):
            when = schedule(call.arguments[0]) if call.arguments else ""
            name = call.receiver[len("Crono.perform(") :].rstrip(")")
            yield _trigger(script, call, "crono", name=name, when=when, fires="scheduler")
        case "every" | "daily" if not call.receiver and _mini_scheduler(script, call):
            when = schedule(call.arguments[0]) if call.arguments else "every 1d"
            why = "its library gives each job to one process, under a lock in Redis"
            yield _trigger(
                script,
                call,
                "mini-scheduler",
                name=script.owner(call.node),
                when=when,
                alone=Verdict.GUARDED,
                why=why,
            )
        case "new" | "execute" if call.receiver.endswith("Concurrent::TimerTask"):
            when = schedule(call.option("execution_interval") or "60")
            own = for_itself(*called(call.node.field("block"))[:1], script.owner(call.node))
            alone = Verdict.PER_PROCESS_OK if own else Verdict.UNGUARDED
            yield _trigger(script, call, "timer", when=when, alone=alone)
        case _:
            pass


def _mini_scheduler(script: Script, call: Call) -> bool:
    text = script.file.text
    if "Jobs::Scheduled" not in text and "MiniScheduler" not in text:
        return False
    if enclosing(call.node, "method", "singleton_method") is not None:
        return False
    return "Jobs::Scheduled" in script.superclass(call.node) or "MiniScheduler" in text


def _keyed(
    script: Script, call: Call, kind: str, when: str, name: str, why: str = _SIDEKIQ_WHY
) -> Trigger:
    return _trigger(
        script,
        call,
        kind,
        name=(literal(name) or name)[:60],
        when=schedule(when) if when else "",
        alone=Verdict.GUARDED,
        why=why,
    )


def _assigned(script: Script) -> Iterator[Trigger]:
    """``config.good_job.cron = {...}``, ``Settings.cron_jobs['x']['cron'] ||= '...'``."""
    for node in nodes(script.root, "assignment", "operator_assignment"):
        left, right = node.field("left"), node.field("right")
        if left is None or right is None:
            continue
        target = left.text()
        if re.search(r"good_job\.cron$|GoodJob\.\w*cron\w*$", target) or (
            "good_job" in script.file.text and target.endswith(".cron")
        ):
            why = "its library enqueues each fire time under a unique key"
            yield from _table(script, right, "good-job", why)
        elif re.search(r"\[[\"':]cron[\"']?\]$", target) and written(literal(right.text())):
            name = re.search(r"\[[\"':](\w+)[\"']?\]\[", target)
            yield Trigger(
                kind="sidekiq-cron",
                path=script.file.path,
                line=line(node),
                language="ruby",
                name=name[1] if name else "",
                schedule=written(literal(right.text())),
                alone=Verdict.GUARDED,
                why=_SIDEKIQ_WHY,
            )


def _table(script: Script, table: SgNode | None, kind: str, why: str) -> Iterator[Trigger]:
    """A hash of jobs: each entry is a hash with a schedule and a class."""
    for pair in nodes(table, "pair") if table is not None else ():
        key, value = pair.field("key"), pair.field("value")
        if key is None or value is None or value.kind() != "hash":
            continue
        given = re.search(
            r"\bcron[\"']?\s*(?::|=>)\s*(\"[^\"\n]*\"|'[^'\n]*'|[^\n,}]+)", value.text()
        )
        named = re.search(r"\bclass[\"']?\s*(?::|=>)\s*[\"']([\w:]+)", value.text())
        if given:
            yield Trigger(
                kind=kind,
                path=script.file.path,
                line=line(pair),
                language="ruby",
                name=named[1] if named else key.text().strip(":\"'"),
                schedule=schedule(given[1]),
                target=named[1] if named else "",
                alone=Verdict.GUARDED,
                why=why,
            )


_SLEEP = re.compile(r"\bsleep\b\s*\(?\s*([\w.]+)?")
_TAKES = re.compile(r"\b(?:receive_messages?|brpop|blpop|reserve|dequeue|work_off|pop)\b")
_SUPERVISES = re.compile(r"Process\.wait|waitpid|signal|Signal|IO\.select|\.alive\?|gets\b")


def _loops(script: Script) -> Iterator[Trigger]:
    for node in nodes(script.root, "call", "while", "until"):
        if node.kind() == "call":
            name = node.field("method")
            if name is None or name.text() != "loop" or node.field("block") is None:
                continue
        elif not re.match(
            r"(?:while\s+(?:true|1|!|not|@?running|@?alive)|until\s+@?\w*stop)", node.text()
        ):
            continue
        body = node.text()
        sleeps = _SLEEP.search(body)
        method, owner = script.method_of(node), script.owner(node)
        if sleeps is None or enclosing(node, "while", "until", "rescue"):
            continue
        if for_waiting(method) or for_a_person(method, owner) or _leaves(body):
            continue
        if _SUPERVISES.search(body) or not called(node):
            continue
        takes = _TAKES.search(body)
        inside = called(node)
        own = for_itself(method, owner, *(inside[:1] if len(inside) < 2 else ()))
        alone = Verdict.CONSUMER if takes else Verdict.PER_PROCESS_OK if own else Verdict.UNGUARDED
        yield Trigger(
            kind="consumer-loop" if takes else "loop",
            path=script.file.path,
            line=line(node),
            language="ruby",
            name=".".join(filter(None, (owner, method))),
            schedule=schedule(sleeps[1]) if sleeps[1] else "",
            target=inside[0] if inside else method,
            guards=guards_in(body, line(node)),
            marks=inside[1:6],
            alone=alone,
            role="consumer" if takes else "trigger",
            why=f"its name, {own}, says that it serves its own process" if own else "",
            confidence="medium",
        )


def _leaves(body: str) -> bool:
    """Decide whether a loop ends when it has what it waits for, or gives up."""
    return re.search(r"\b(?:break|return)\b", body) is not None and len(body) < 600


def _methods(script: Script, *, here: bool) -> Iterator[Function]:
    """Return the methods of a file; one that works inside a guarding method's block is guarded."""
    found = [
        Function(name, script.file.path, number, guards_in(body, number), calls)
        for name, number, body, calls in script.methods()
    ]
    guarding = {each.name: each for each in found if each.guards}
    bodies = {name: body for name, _, body, _ in script.methods()}
    strong = (Verdict.GUARDED, Verdict.NO_OVERLAP, Verdict.WEAK_GUARD)
    for each in found:
        for call in each.calls:
            wraps = rf"(?m)^\s*{re.escape(call)}\b[^\n]*(?:\bdo\b|\{{)"
            if call in guarding and re.search(wraps, bodies[each.name]):
                each = replace(each, guards=(*each.guards, *guarding[call].guards))
        if not here:
            guards = tuple(g for g in each.guards if g.gives in strong and g.name != "lock")
            each = replace(each, guards=guards)
        if (each.guards or here) and len(each.name) > SHORT_NAME:
            yield each
