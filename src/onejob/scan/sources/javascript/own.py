"""Schedulers of the house's own: functions that hand their caller's function to a timer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan import schedules
from onejob.scan.facts import Trigger, Use, Wrapper
from onejob.scan.sources.javascript import times
from onejob.scan.sources.javascript.script import (
    FUNCTIONS,
    Script,
    arguments,
    called,
    line_of,
    own_name,
)
from onejob.scan.syntax import above, children, line, nodes

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_NAMES = re.compile(r"cron|sched|period|every|interval|recur|repeat|timer|job|task", re.I)
_AMOUNTS = ("number", "binary_expression", "call_expression")
_KNOWN = frozenset(("setInterval", "setTimeout", "clearInterval", "clearTimeout", "setImmediate"))


def wrapper_around(script: Script, trigger: Trigger, node: SgNode) -> Wrapper | None:
    """Return the named function that hands its caller's function to this trigger."""
    for function in above(node, *FUNCTIONS):
        name = own_name(function)
        names = _parameters(function)
        if not name or not names or name == "constructor":
            continue
        if trigger.target.split(".")[0] in names or _runs_one_of(function, names):
            return Wrapper(name, script.path, line(function), trigger)
        return None
    return None


def _parameters(function: SgNode) -> set[str]:
    given = function.field("parameters")
    names = set[str]()
    for each in children(given):
        pattern = each.field("pattern") if each.kind().endswith("_parameter") else each
        if pattern is not None and pattern.kind() == "identifier":
            names.add(pattern.text())
    return names


def _runs_one_of(function: SgNode, names: set[str]) -> bool:
    return any(called(call) in names for call in nodes(function, "call_expression"))


def uses(script: Script) -> Iterator[Use]:
    """Return the calls that may be of a wrapper: a name that sounds like one, and a function."""
    for call in nodes(script.root, "call_expression"):
        last = called(call).replace("?.", ".").rpartition(".")[2]
        if last in _KNOWN or not _NAMES.search(last) or len(last) > 60:
            continue
        given = arguments(call)
        handed = next((each for each in given if _is_function(script, each)), None)
        if handed is None:
            continue
        texts = [script.text(each) for each in given]
        schedule = next((schedules.cron(text) for text in texts if schedules.is_cron(text)), "")
        label = next((t for t in texts if t and t != schedule and len(t) < 80), "")
        target = handed.text() if handed.kind() not in FUNCTIONS else ""
        target = re.sub(r"^this\.|\.bind\(.*", "", target)
        period = next((found for each in given if (found := _period(script, each))), "")
        yield Use(
            last,
            script.path,
            line_of(call),
            label or target,
            schedule or period,
            target if re.fullmatch(r"[\w.$]{1,120}", target) else "",
        )


def _is_function(script: Script, node: SgNode) -> bool:
    if node.kind() in FUNCTIONS:
        return True
    text = node.text()
    return node.kind() in ("identifier", "member_expression", "call_expression") and (
        script.function(node) is not None or ".bind(" in text
    )


def _period(script: Script, node: SgNode) -> str:
    found = script.value(node)
    if found is None or found.kind() not in _AMOUNTS:
        return ""
    text = times.milliseconds(script, node)
    return text if text.startswith("every") else ""
