"""What keeps a JavaScript function from running twice, by what its body calls and looks at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan.facts import Guard
from onejob.scan.finding import Verdict
from onejob.scan.sources.javascript.script import Script, called, entries
from onejob.scan.syntax import enclosing, line, nodes

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_REDIS_WHY = "lapses when the job outlives it, and a failover of Redis can forget it"
_CLAIM_WHY = "claims the row by its old state and looks at the count"
_ADVISORY = re.compile(r"pg_(try_)?advisory_(xact_)?lock|GET_LOCK\s*\(", re.I)
_FOR_UPDATE = re.compile(r"SELECT\b.+\bFOR\s+(NO\s+KEY\s+)?UPDATE", re.I | re.S)
_UPDATE = re.compile(r"\bUPDATE\b.+\bWHERE\b", re.I | re.S)
_COUNT = re.compile(
    r"\.?(rowCount|affectedRows|modifiedCount|matchedCount|numUpdatedRows|numAffectedRows"
    r"|nModified|changes|affected|\.count)\b|\bcount\s*[=!<>]"
)
_LEADER = re.compile(
    r"\b(is|am|become|acquire|ensure)_?(the_?)?(\w*leader|\w*master|\w*primary)\w*\b", re.I
)
_CLUSTER = re.compile(
    r"NODE_APP_INSTANCE|cluster\.(isPrimary|isMaster|worker)|process\.env\.(pm_id|INSTANCE_\w+"
    r"|CF_INSTANCE_INDEX|POD_NAME|HOSTNAME)|os\.hostname\(\)"
    r"|(?:^|[\s(!&|])(?:(?:worker|process|instance|cluster)\.?(?:id|Id|ID|index|Index)|id)\s*={2,3}\s*[01]\b"
)
_LOCK = re.compile(
    r"(^|[^a-z])(un)?lock(ed|s|er)?([^a-z]|$)|mutex|exclusive|semaphore|distributed", re.I
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CLAIMS = re.compile(r"^(claim|try_?claim|reserve|acquire_?slot|mark_?as_?(running|started))", re.I)
_NX = re.compile(r"['\"]NX['\"]|\bNX\s*:\s*true|\bnx\s*:\s*true")


def guards_in(script: Script, function: SgNode) -> tuple[Guard, ...]:
    """Return every guard in a function's text, in order of lines."""
    found = [*_calls(script, function), *_texts(function), *_conditions(function)]
    unique = {(guard.name, guard.gives): guard for guard in reversed(found)}
    return tuple(sorted(unique.values(), key=lambda guard: guard.line))


def _calls(script: Script, function: SgNode) -> Iterator[Guard]:
    for call in nodes(function, "call_expression"):
        callee = called(call)
        last = callee.replace("?.", ".").rpartition(".")[2]
        package, _ = script.origin(callee)
        low = _CAMEL.sub("_", last).lower()
        if package == "onejob":
            yield Guard(callee, Verdict.GUARDED, line(call), "decides in onejob's store")
        elif last in ("set", "setnx", "SET") and _NX.search(call.text()[:2_000]) and _tested(call):
            yield Guard("set NX", Verdict.WEAK_GUARD, line(call), _REDIS_WHY)
        elif last == "setnx" and _tested(call):
            yield Guard("setnx", Verdict.WEAK_GUARD, line(call), _REDIS_WHY)
        elif last == "set" and _tested(call) and not callee.startswith(("new Map", "this.map")):
            why = "sets the slot in a shared store, and goes on only where that was first"
            yield Guard(callee, Verdict.GUARDED, line(call), why)
        elif package in ("async-mutex", "async-lock", "p-limit", "await-lock"):
            yield Guard(callee, Verdict.HOST_ONLY, line(call), "is of this process only")
        elif package in ("proper-lockfile", "lockfile"):
            yield Guard(callee, Verdict.HOST_ONLY, line(call), "is a file of this host")
        elif last in ("skipLocked", "forUpdate") or (
            last == "setLock" and "pessimistic" in call.text()[:200]
        ):
            yield Guard(last, Verdict.GUARDED, line(call), "locks the rows it works on")
        elif last in ("findOneAndUpdate", "findAndModify", "findOneAndReplace") and _tested(call):
            yield Guard(last, Verdict.GUARDED, line(call), _CLAIM_WHY)
        elif _CLAIMS.search(low) and _tested(call):
            yield Guard(
                last, Verdict.GUARDED, line(call), "goes on only where the claim was its own"
            )
        elif last == "runExclusive":
            yield Guard(last, Verdict.HOST_ONLY, line(call), "is of this process only")
        elif _LOCK.search(low) and not low.startswith(("un", "release", "is_locked", "block")):
            yield Guard(last, Verdict.WEAK_GUARD, line(call), _REDIS_WHY)
        elif last in ("acquire", "using", "enter", "run", "execute") and re.search(
            r"lock", callee, re.I
        ):
            yield Guard(callee, Verdict.WEAK_GUARD, line(call), _REDIS_WHY)
        elif last in ("add", "addBulk", "addJobsToQueue", "send", "enqueue"):
            yield from _job_id(call)


def _job_id(call: SgNode) -> Iterator[Guard]:
    for pair in nodes(call, "pair"):
        key = pair.field("key")
        if key is not None and key.text().strip("'\"") in ("jobId", "singletonKey", "dedupKey"):
            why = (
                "lets the queue refuse a job whose id it still has; the trigger itself is not kept"
            )
            yield Guard(key.text(), Verdict.WEAK_GUARD, line(pair), why)
            return


def _texts(function: SgNode) -> Iterator[Guard]:
    counted = bool(_COUNT.search(function.text()))
    for node in nodes(function, "string", "template_string"):
        text = node.text()
        advisory = _ADVISORY.search(text)
        if advisory is not None:
            if advisory[2]:
                why = "ends with its transaction: a replica that fires later runs again"
                yield Guard("advisory lock", Verdict.NO_OVERLAP, line(node), why)
            else:
                why = "ends with its connection, and a replica that fires later runs again"
                yield Guard("advisory lock", Verdict.WEAK_GUARD, line(node), why)
        elif _FOR_UPDATE.search(text):
            yield Guard("FOR UPDATE", Verdict.GUARDED, line(node), "locks the rows it works on")
        elif counted and _UPDATE.search(text):
            yield Guard("conditional UPDATE", Verdict.GUARDED, line(node), _CLAIM_WHY)
    if counted:
        for call in nodes(function, "call_expression"):
            if called(call).endswith(("updateMany", "updateOne", ".update")) and _counted(function):
                yield Guard("conditional update", Verdict.GUARDED, line(call), _CLAIM_WHY)
                return


def _counted(function: SgNode) -> bool:
    return any(
        (condition := node.field("condition")) is not None and _COUNT.search(condition.text())
        for node in nodes(function, "if_statement")
    )


def _conditions(function: SgNode) -> Iterator[Guard]:
    for node in nodes(function, "if_statement"):
        condition = node.field("condition")
        if condition is None:
            continue
        text = condition.text()[:500]
        if _CLUSTER.search(text):
            why = "chooses a process by its number or host, which two may have"
            yield Guard("instance check", Verdict.HOST_ONLY, line(node), why)
        elif _LEADER.search(text):
            why = "was true when it was asked; nothing fences a leader that has been replaced"
            yield Guard("leader check", Verdict.WEAK_GUARD, line(node), why)


def _tested(call: SgNode) -> bool:
    """Decide whether a condition looks at what a call answered."""
    declared = enclosing(call, "variable_declarator", "statement_block")
    if enclosing(call, "if_statement", "statement_block", "function_declaration") is not None:
        inside = enclosing(call, "if_statement", "statement_block")
        if inside is not None and inside.kind() == "if_statement":
            return True
    if declared is None or declared.kind() != "variable_declarator":
        return False
    name = declared.field("name")
    block = enclosing(declared, "statement_block", "program")
    if name is None or block is None or name.kind() != "identifier":
        return False
    word = re.compile(rf"\b{re.escape(name.text())}\b")
    return any(
        (condition := node.field("condition")) is not None and word.search(condition.text())
        for node in nodes(block, "if_statement", "ternary_expression")
    )


def around_start(script: Script, node: SgNode) -> Iterator[Guard]:
    """Return what decides, around the place itself, whether this process fires at all."""
    inside = enclosing(node, "if_statement")
    condition = inside.field("condition") if inside is not None else None
    if inside is not None and condition is not None and _CLUSTER.search(condition.text()):
        why = "chooses a process by its number or host, which two may have"
        yield Guard("instance check", Verdict.HOST_ONLY, line(inside), why)


def limits(script: Script, options: SgNode | None) -> Iterator[Guard]:
    """Return what a scheduler's options say: switched off, or nothing."""
    given = entries(script.value(options))
    off = given.get("scheduled") or given.get("disabled") or given.get("enabled")
    if off is not None:
        key = next(k for k in ("scheduled", "disabled", "enabled") if given.get(k) is off)
        if (off.text() == "true") == (key == "disabled") and off.text() in ("true", "false"):
            yield Guard(f"{key}: {off.text()}", Verdict.DORMANT, line(off), "until it is started")
