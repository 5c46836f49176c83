"""Code that looks like a guard or a key and is none; tasks that a broker hands out again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onejob.scan.facts import Fact, Smell, Trigger
from onejob.scan.finding import Confidence, Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.module import FunctionNode, Module, keywords

_CONFLICT = re.compile(r"\bON\s+CONFLICT\s+DO\s+NOTHING|\bINSERT\s+IGNORE\b", re.I)
_KEY = re.compile(r"idempoten(t|cy)[_-]?key|^x?-?idempotency", re.I)
_RANDOM = (
    "uuid4",
    "uuid1",
    "token_hex",
    "token_urlsafe",
    "urandom",
    "random",
    "randint",
    "getrandbits",
)
_CLOCK = re.compile(
    r"datetime\.(now|today)\(\)\.(hour|minute|weekday|day|strftime|time)|strftime\(", re.I
)
_INSERTS = ("create", "add", "insert", "insert_one", "save", "acreate")
_LOOKS = ("exists", "first", "find_one", "count", "one_or_none", "scalar", "get_or_none", "aexists")
_WRITERS = ("objects", "session", "db", "collection", "query", "manager")


def find(module: Module) -> Iterator[Fact]:
    """Return the smells of a file."""
    yield from _swallowed(module)
    yield from _conflicts(module)
    yield from _check_then_insert(module)
    yield from _random_keys(module)
    for function in module.functions:
        yield from _locks(module, function)
        yield from _late(module, function)
    yield from _late_everywhere(module)
    yield from _naive_times(module)


def _smell(
    module: Module, kind: str, line: int, name: str, why: str, confidence: Confidence = "high"
) -> Smell:
    return Smell(kind, module.path, line, "python", name, why, confidence)


def _swallowed(module: Module) -> Iterator[Smell]:
    for node in module.handlers:
        caught = ast.unparse(node.type) if node.type is not None else ""
        if "IntegrityError" in caught and all(map(_nothing, node.body)):
            why = (
                "takes every broken constraint for a duplicate: a missing foreign key or a NULL "
                "is swallowed as well"
            )
            yield _smell(module, "swallowed-violation", node.lineno, "IntegrityError", why)


def _nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Continue():
            return True
        case ast.Return(value=value):
            return value is None or isinstance(value, ast.Constant)
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return re.search(r"\blog|\bprint\b|rollback", ast.unparse(function), re.I) is not None
        case _:
            return False


def _conflicts(module: Module) -> Iterator[Smell]:
    why = "lets any unique key refuse the row without a word, the one that was meant and the others"
    for constant in module.strings:
        if _CONFLICT.search(str(constant.value)) and not isinstance(
            module.parents.get(constant), ast.Expr
        ):
            yield _smell(module, "conflict-without-target", constant.lineno, "INSERT", why)
    for call in module.calls:
        last = module.name(call.func).rpartition(".")[2]
        ignoring = keywords(call).get("ignore_conflicts")
        bare = last == "on_conflict_do_nothing" and not call.args and not call.keywords
        if bare or (isinstance(ignoring, ast.Constant) and ignoring.value is True):
            yield _smell(module, "conflict-without-target", call.lineno, last, why)


def _check_then_insert(module: Module) -> Iterator[Smell]:
    for node in module.conditions:
        looked = _looked_up(module, node.test)
        if not looked or module.function_of(node) is None:
            continue
        written = next((call for part in node.body for call in _writes(module, part)), None)
        if written is not None and not _locked(module, node):
            why = "looks first and writes later: two replicas look, and both write"
            yield _smell(module, "check-then-insert", node.lineno, looked, why, "medium")


def _looked_up(module: Module, test: ast.expr) -> str:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = operand
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=v)]):
            if v:
                return ""
            inner = left
        case _:
            return ""
    found = module.value(inner)
    found = found.value if isinstance(found, ast.Await) else found
    if not (isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute)):
        return ""
    name = module.name(found.func)
    asks = any(
        part in _WRITERS or part in ("filter", "filter_by") for part in name.lower().split(".")
    )
    return found.func.attr if found.func.attr in _LOOKS and asks else ""


def _writes(module: Module, statement: ast.stmt) -> Iterator[ast.Call]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = module.name(node.func.value).lower().split(".")
            if node.func.attr in _INSERTS and any(part in _WRITERS for part in owner):
                yield node


def _locked(module: Module, node: ast.AST) -> bool:
    return any(
        isinstance(above, ast.With | ast.AsyncWith)
        and "lock" in ast.unparse(above.items[0]).lower()
        for above in module.above(node)
    )


def _random_keys(module: Module) -> Iterator[Smell]:
    why = "is drawn anew by each attempt, so that a repeated request is a new one to the provider"
    for call in module.calls:
        for keyword in call.keywords:
            if keyword.arg and _KEY.search(keyword.arg) and _drawn(module, keyword.value):
                yield _smell(module, "random-key", keyword.value.lineno, keyword.arg, why)
    for table in module.dicts:
        for key, value in zip(table.keys, table.values, strict=True):
            name = module.text(key)
            if name and _KEY.search(name) and _drawn(module, value):
                yield _smell(module, "random-key", value.lineno, name, why)


def _drawn(module: Module, node: ast.expr) -> bool:
    found = module.value(node)
    return found is not None and any(
        isinstance(each, ast.Call) and module.name(each.func).rpartition(".")[2] in _RANDOM
        for each in ast.walk(found)
    )


def _locks(module: Module, function: FunctionNode) -> Iterator[Smell]:
    taken: dict[str, ast.Call] = {}
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    for call in calls:
        if not isinstance(call.func, ast.Attribute) or not call.args:
            continue
        given, attr = keywords(call), call.func.attr
        once = isinstance(nx := given.get("nx"), ast.Constant) and nx.value is True
        if attr == "setnx" or (attr == "set" and once):
            taken[ast.unparse(call.args[0])] = call
            if not {"ex", "px", "exat", "pxat"} & given.keys():
                why = (
                    "takes a lock that never ends when its holder dies, or gets its end in a "
                    "second step, which a crash leaves out"
                )
                yield _smell(module, "lock-without-expiry", call.lineno, attr, why)
    for call in calls:
        frees = isinstance(call.func, ast.Attribute) and call.func.attr in ("delete", "unlink")
        if frees and call.args and ast.unparse(call.args[0]) in taken:
            why = "frees the lock whoever has it by now: another holder, when ours had lapsed"
            name = ast.unparse(call.func).rpartition(".")[2]
            yield _smell(module, "release-without-token", call.lineno, name, why)
    yield from _short_locks(module, function, calls)


def _short_locks(module: Module, function: FunctionNode, calls: list[ast.Call]) -> Iterator[Smell]:
    limit = _time_limit(module, function)
    if limit is None:
        return
    for call in calls:
        if module.name(call.func).rpartition(".")[2] not in ("lock", "Lock", "Redlock"):
            continue
        given = keywords(call)
        ttl = next((given[k] for k in ("timeout", "expire", "ttl", "ex") if k in given), None)
        seconds = timing.number(module, ttl)
        if seconds is not None and seconds < limit:
            why = f"lasts {seconds:g} s, and the task may take {limit:g} s: it lapses in the middle"
            yield _smell(module, "lock-shorter-than-job", call.lineno, "lock", why)


def _time_limit(module: Module, function: FunctionNode) -> float | None:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call):
            found = timing.number(module, keywords(decorator).get("time_limit"))
            if found is not None:
                return found
    return None


def _late(module: Module, function: FunctionNode) -> Iterator[Trigger]:
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        late = keywords(decorator).get("acks_late")
        if isinstance(late, ast.Constant) and late.value is True:
            yield _again(module, decorator.lineno, function.name, module.qualified(function))


def _late_everywhere(module: Module) -> Iterator[Trigger]:
    for assignment in module.assignments:
        targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
        value = assignment.value
        for target in targets:
            name = ast.unparse(target)
            if name.lower().endswith("task_acks_late") and (
                isinstance(value, ast.Constant) and value.value is True
            ):
                yield _again(module, assignment.lineno, "every task", "")


def _again(module: Module, line: int, name: str, target: str) -> Trigger:
    visible = next(
        (
            found
            for table in module.dicts
            for key, value in zip(table.keys, table.values, strict=True)
            if module.text(key) == "visibility_timeout"
            and (found := timing.number(module, value)) is not None
        ),
        None,
    )
    why = "is acknowledged after the work: a worker that dies, or takes longer than the broker's "
    why += f"visibility timeout ({visible:g} s)" if visible else "visibility timeout (not set here)"
    return Trigger(
        kind="acks-late",
        path=module.path,
        line=line,
        language="python",
        name=name,
        target=target,
        alone=Verdict.AT_LEAST_ONCE,
        role="retry",
        fires="platform",
        why=f"{why}, has it run again",
    )


def _naive_times(module: Module) -> Iterator[Smell]:
    for node in module.conditions:
        in_loop = any(isinstance(above, ast.While) for above in module.above(node))
        if in_loop and _CLOCK.search(ast.unparse(node.test)):
            why = (
                "asks the local clock whether it is time: a late turn misses it, a quick one does "
                "it twice, and clock changes do both"
            )
            yield _smell(module, "naive-time", node.lineno, "datetime.now", why, "medium")
