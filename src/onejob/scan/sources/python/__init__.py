"""Python, by its own parser. Nothing is imported or run.

One parse gives a ``Module``; each finder reads it and states what it knows about. Functions whose
bodies guard are stated too, and those that a schedule may mean, so that a schedule in another file
finds them by name.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace

from onejob.scan.facts import Fact, Function, Guard, Note, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.reading import SourceFile
from onejob.scan.sources.python import (
    celery,
    launches,
    loops,
    orchestrators,
    ours,
    own,
    queues,
    scheduling,
    smells,
    starts,
    tables,
    timers,
)
from onejob.scan.sources.python.guards import guards_in
from onejob.scan.sources.python.module import FunctionNode, Module, keywords, parse

PATTERNS = ("*.py", "*.pyw", "#!python")

FINDERS = (
    scheduling.find,
    loops.find,
    timers.find,
    celery.find,
    queues.find,
    orchestrators.find,
    ours.find,
    launches.find,
    smells.find,
)
CALLS_MAX = 40
_TASKS = ("task", "shared_task", "actor", "job", "db_task", "command", "asset", "flow", "op")

#: A file without any of these words states nothing, and is not parsed.
_WORTH = re.compile(
    r"schedul|cron|beat|periodic|repeat|\bTimer\b|sleep|\bwait|every\(|lock|once|uvicorn|workers"
    r"|rowcount|update\(|queue|poll|lpop|receive_message|call_later|create_task|DAG\b|dag\b"
    r"|ON CONFLICT|INSERT IGNORE|do_nothing|ignore_conflicts"
    r"|shared_task|\.task\b|leader|onejob|\.guard\(|\bCelery\(|Huey\(|acks_late|idempot|IntegrityError|setnx|nx=",
    re.IGNORECASE,
)


def read(file: SourceFile) -> Iterable[Fact]:
    """State what a Python file triggers, launches and guards."""
    if not _WORTH.search(file.text):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes in somebody else's strings
            module = parse(file)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0) or 0
        yield Note(file.path, "is no Python 3: not judged", line)
        return
    wanted = set[str]()
    taken = set[int]()
    for finder in FINDERS:
        for fact in finder(module):
            if isinstance(fact, Trigger):
                if not fact.needs:
                    taken.add(fact.line)
                for each in _placed(module, fact):
                    if isinstance(each, Trigger):
                        wanted.add(each.target.rpartition(".")[2])
                    yield each
            else:
                yield fact
    yield from starts.started_in_master(module)
    yield from own.decorated(module, taken)
    yield from own.uses(module)
    yield from _functions(module, wanted)


def _placed(module: Module, trigger: Trigger) -> Iterator[Fact]:
    """Return a trigger where it belongs: each row of its table, or the wrapper that it is in."""
    node = next(_at(module, trigger), None)
    started = starts.guards_of_start(module) if trigger.kind in starts.STARTED else ()
    trigger = replace(trigger, guards=(*trigger.guards, *_around(module, trigger), *started))
    if node is None:
        yield trigger
        return
    trigger = replace(trigger, guards=(*trigger.guards, *ours.wrapped(module, node)))
    wrapper = own.wrapper_around(module, trigger, node)
    if wrapper is not None:
        yield wrapper
    else:
        yield from tables.unrolled(module, trigger, node)


def _functions(module: Module, wanted: set[str]) -> Iterator[Function]:
    guarded = {
        function: guards for function in module.functions if (guards := guards_in(module, function))
    }
    names = {function.name for function in guarded}
    for function in module.functions:
        marks = module.marks(function)
        asked = function.name in wanted or any(_last(mark) in _TASKS for mark in marks)
        calls = _calls(module, function) if asked or names else ()
        # One that calls a guarded one is stated as well: a schedule elsewhere may mean it.
        if not asked and function not in guarded and names.isdisjoint(map(_last, calls)):
            continue
        found = Function(
            name=module.qualified(function),
            path=module.path,
            line=function.lineno,
            guards=guarded.get(function, ()),
            calls=calls,
            marks=marks,
        )
        yield found
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call):
                named = module.text(keywords(decorator).get("name"))
                if named and _last(named) != function.name:
                    yield replace(found, name=named)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _calls(module: Module, function: FunctionNode) -> tuple[str, ...]:
    names = {
        module.name(node.func): None for node in ast.walk(function) if isinstance(node, ast.Call)
    }
    return tuple(name for name in names if name and not name.startswith("."))[:CALLS_MAX]


def _around(module: Module, trigger: Trigger) -> Iterator[Guard]:
    """Return what guards the place itself: a lock around ``start()``, dead code."""
    for node in _at(module, trigger):
        for above in module.above(node):
            match above:
                case ast.If(test=ast.Constant(value=value)) if not value:
                    yield Guard("if False", Verdict.DISABLED, above.lineno, "keeps it off")
                case ast.FunctionDef() | ast.AsyncFunctionDef() if trigger.role == "trigger":
                    kinds = (Verdict.HOST_ONLY, Verdict.WEAK_GUARD)
                    yield from (
                        guard
                        for guard in guards_in(module, above)
                        if guard.gives in kinds and guard.line <= trigger.line
                    )
                case _:
                    continue


def _at(module: Module, trigger: Trigger) -> Iterator[ast.AST]:
    nodes: list[ast.AST] = [*module.calls, *module.loops, *module.dicts]
    for node in nodes:
        if getattr(node, "lineno", 0) == trigger.line:
            yield node
            return
