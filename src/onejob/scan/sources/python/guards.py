"""What keeps a Python function from running twice: locks, claims, counts that are checked.

Each test looks at one function, without the functions in it. A guard counts where its answer is
used: a lock as a context, or a claim that is followed by a condition on it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onejob.scan.facts import Guard
from onejob.scan.finding import Verdict
from onejob.scan.sources.python import ours
from onejob.scan.sources.python.body import Body, body_of, names_bound_to
from onejob.scan.sources.python.locks import (
    REDIS_WHY,
    advisory,
    file_lock,
    lapsing,
    lock_of,
    of_this_host,
)
from onejob.scan.sources.python.module import FunctionNode, Module, argument, keywords

_LEADER = re.compile(
    r"(is|am|are|be|become|check|acquire|try)_?\w*(leader|master|primary)(?!_key)|leader_?election",
    re.I,
)
_HOST = re.compile(
    r"gethostname|getpid\(|getppid\(|parent_process\(|NODE_APP_INSTANCE|INSTANCE_(ID|NUMBER|INDEX)|CF_INSTANCE_INDEX|worker_id\(|"
    r"uwsgi\.worker_id|mule_id|['\"]HOSTNAME['\"]|platform\.node|ORDINAL|['\"]POD_NAME['\"]",
)
_ADVISORY_XACT = re.compile(r"pg_(try_)?advisory_xact_lock", re.I)
_ADVISORY = re.compile(r"pg_(try_)?advisory_lock|GET_LOCK\s*\(", re.I)
_SKIP_LOCKED = re.compile(r"FOR\s+(NO\s+KEY\s+)?UPDATE\b(?P<skip>.*SKIP\s+LOCKED)?", re.I | re.S)
_SQL_UPDATE = re.compile(r"\b(UPDATE|DELETE\s+FROM)\b.+\bWHERE\b", re.I | re.S)
_SQL_INSERT = re.compile(r"\bINSERT\b.+\b(ON\s+CONFLICT|IGNORE)\b", re.I | re.S)

#: A function of so many statements is its lock and what the lock is for.
SMALL = 5
_CLAIM_WHY = "claims the row by its old state and looks at the count"


def guards_in(module: Module, function: FunctionNode) -> tuple[Guard, ...]:
    """Return every guard in a function's body and on its decorators, in order of lines."""
    body = body_of(module, function)
    found = [
        *_contexts(body),
        *_claims(body),
        *_statements(body),
        *_conditions(body),
        *_lock_rows(body),
        *_on_decorators(module, function),
    ]
    unique = {(guard.name, guard.gives): guard for guard in reversed(found)}
    return tuple(sorted(unique.values(), key=lambda guard: guard.line))


def _contexts(body: Body) -> Iterator[Guard]:
    for block in body.withs:
        for item in block.items:
            for guard in lock_of(body.module, item.context_expr):
                if guard.gives is not Verdict.HOST_ONLY or _encloses(body, block):
                    yield guard


def _encloses(body: Body, block: ast.With | ast.AsyncWith) -> bool:
    """Decide whether a lock of the process holds the function's work, not a line of it."""
    statements = body.function.body
    inside = next((s for s in statements if any(n is block for n in ast.walk(s))), None)
    loops = any(isinstance(a, ast.While | ast.For) for a in body.module.above(block))
    return inside is not None and len(statements) <= SMALL and not loops


def _claims(body: Body) -> Iterator[Guard]:
    for call in body.calls:
        yield from ours.called(body.module, call, tested=body.tested(call))
        locked = file_lock(body.module, call)
        if locked is not None:
            yield locked
        if not isinstance(call.func, ast.Attribute):
            continue
        attr, given = call.func.attr, keywords(call)
        owner = body.module.name(call.func.value).lower()
        line = call.lineno
        if attr == "add" and "cache" in owner and body.tested(call):
            yield Guard("cache.add", Verdict.WEAK_GUARD, line, REDIS_WHY)
        elif (attr == "set" and _true(given.get("nx"))) or attr == "setnx":
            if body.tested(call):
                yield Guard(f"{attr} nx".removesuffix(" nx"), Verdict.WEAK_GUARD, line, REDIS_WHY)
        elif attr in ("acquire", "try_acquire", "acquire_lock", "obtain", "obtain_lock"):
            yield from _acquired(body, call)
        elif attr in ("select_for_update", "with_for_update"):
            skip = _true(given.get("skip_locked"))
            why = "takes rows that nobody else holds" if skip else "locks the rows it works on"
            name = "FOR UPDATE SKIP LOCKED" if skip else "FOR UPDATE"
            yield Guard(name, Verdict.GUARDED, line, why)
        elif attr == "update" and _filtered(body.module, call) and body.decides(call):
            yield Guard("conditional update", Verdict.GUARDED, line, _CLAIM_WHY)
        elif attr in ("get_or_create", "update_or_create") and _created_is_tested(body, call):
            yield Guard(
                attr, Verdict.GUARDED, line, "lets the first insert win, given a unique key"
            )
        elif attr in ("find_one_and_update", "find_and_modify") and body.tested(call):
            yield Guard(attr, Verdict.GUARDED, line, _CLAIM_WHY)


def _acquired(body: Body, call: ast.Call) -> Iterator[Guard]:
    assert isinstance(call.func, ast.Attribute), "only methods are looked at"
    inner = call.func.value
    found = list(lock_of(body.module, inner))
    made = body.module.maker(inner)
    if found:
        yield Guard(f"{call.func.attr}()", found[0].gives, call.lineno, found[0].why)
    elif of_this_host(made):
        yield Guard(f"{call.func.attr}()", Verdict.HOST_ONLY, call.lineno, "is a file of this host")
    elif lapsing(body.module, inner, made):
        yield Guard(f"{call.func.attr}()", Verdict.WEAK_GUARD, call.lineno, REDIS_WHY)


def _statements(body: Body) -> Iterator[Guard]:
    counted = any("rowcount" in ast.unparse(test) for test in body.tests) or any(
        isinstance(n, ast.Attribute) and n.attr in ("rowcount", "modified_count", "matched_count")
        for test in body.tests
        for n in ast.walk(_resolved(body.module, test))
    )
    for constant in body.strings:
        text = str(constant.value)
        if len(text) < 8:
            continue
        if _ADVISORY_XACT.search(text):
            yield advisory(constant.lineno, xact=True)
        elif _ADVISORY.search(text):
            yield advisory(constant.lineno, xact=False)
        elif (locked := _SKIP_LOCKED.search(text)) is not None and "SELECT" in text.upper():
            why = "takes rows that nobody else holds" if locked["skip"] else "locks its rows"
            yield Guard("FOR UPDATE", Verdict.GUARDED, constant.lineno, why)
        elif counted and _SQL_UPDATE.search(text):
            yield Guard("conditional UPDATE", Verdict.GUARDED, constant.lineno, _CLAIM_WHY)
        elif counted and _SQL_INSERT.search(text):
            why = "lets the first insert win, and looks at the count"
            yield Guard("INSERT under a unique key", Verdict.GUARDED, constant.lineno, why)
    if counted:
        for call in body.calls:
            if body.module.name(call.func).endswith((".update", ".update_one", "update")):
                yield Guard("conditional update", Verdict.GUARDED, call.lineno, _CLAIM_WHY)
                return


def _conditions(body: Body) -> Iterator[Guard]:
    for test in body.tests:
        text = ast.unparse(test)
        if not _leaves(body.module, test):
            continue
        if _LEADER.search(text):
            why = "was true when it was asked; nothing fences a leader that has been replaced"
            yield Guard("leader check", Verdict.WEAK_GUARD, test.lineno, why)
        elif _HOST.search(text) or any(
            _HOST.search(ast.unparse(_resolved(body.module, node)))
            for node in ast.walk(test)
            if isinstance(node, ast.Name)
        ):
            why = "chooses a process by its host or number, which two may have during a rollout"
            yield Guard("host check", Verdict.HOST_ONLY, test.lineno, why)


def _leaves(module: Module, test: ast.expr) -> bool:
    """Decide whether the function ends, or works, depending on this condition."""
    parent = module.parents.get(test)
    if not isinstance(parent, ast.If):
        return False
    negated = isinstance(test, ast.UnaryOp) or any(
        isinstance(node, ast.NotEq | ast.Not) for node in ast.walk(test)
    )
    returns = any(isinstance(node, ast.Return | ast.Raise) for node in parent.body)
    return returns if negated else True


def _lock_rows(body: Body) -> Iterator[Guard]:
    """A table of locks of the house's own: a class called ...Lock, queried and written."""
    for call in body.calls:
        name = body.module.name(call.func)
        parts = name.split(".")
        if any(p.endswith("Lock") and p not in ("Lock", "RLock", "FileLock") for p in parts) and (
            "query" in parts or "objects" in parts or "filter_by" in parts
        ):
            why = "reads and writes its lock row in several steps"
            yield Guard("lock row", Verdict.WEAK_GUARD, call.lineno, why)
            return


_DECORATORS = {
    "once_per": (Verdict.GUARDED, "keeps one key for each period"),
    "lock_task": (Verdict.NO_OVERLAP, "refuses a second one at once, not a second one later"),
}


def _on_decorators(module: Module, function: FunctionNode) -> Iterator[Guard]:
    for decorator in function.decorator_list:
        name = module.name(decorator)
        last = name.rpartition(".")[2]
        found = tuple(ours.over(module, decorator))
        yield from found
        if last in _DECORATORS and not any(not guard.needs for guard in found):
            gives, why = _DECORATORS[last]
            yield Guard(f"@{last}", gives, decorator.lineno, why)
        if isinstance(decorator, ast.Call):
            base = module.name(argument(decorator, -1, "base"))
            if base.endswith(("QueueOnce", "Singleton", "UniqueTask")):
                yield Guard(
                    f"base={base.rpartition('.')[2]}",
                    Verdict.WEAK_GUARD,
                    decorator.lineno,
                    "keeps a key in Redis that lapses",
                )


def _true(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _filtered(module: Module, call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute), "only methods are looked at"
    rows = _resolved(module, call.func.value)
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("filter", "where", "filter_by", "exclude")
        for node in ast.walk(rows)
    )


def _created_is_tested(body: Body, call: ast.Call) -> bool:
    names = names_bound_to(body.module, call)
    return any(
        isinstance(node, ast.Name) and node.id in names
        for test in body.tests
        for node in ast.walk(test)
    )


def _resolved(module: Module, node: ast.expr) -> ast.AST:
    followed = module.value(node)
    return followed if followed is not None else node
