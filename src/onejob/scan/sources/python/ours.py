"""onejob in Python: which objects are its App, what an App schedules and what it is handed.

An App that a file imports is known only when the whole tree has been read. What rests on it says so
(``needs``), and the join keeps it or drops it (``settled.py``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onejob.scan import schedules
from onejob.scan.facts import Fact, Guard, Guarding, Scheduler, Setting, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.identity import absolute, identity, imported
from onejob.scan.sources.python.module import FunctionNode, Module, argument, keywords
from onejob.scan.sources.python.scheduling import target_name

#: The name under which a file states an App of its own.
SETTING = "onejob.app"
_APP = ("onejob.App", "onejob.app.App")
#: An App that nobody's code makes: a Django project's, from its settings.
_PROJECT_S_APP = "onejob.django.app"
_TICK = "makes one run of each fire time, under a unique key in onejob's store"
_DATA = "is one row in onejob's store, and makes one run of each fire time"
_GUARD = "claims each tick in onejob's store before it fires"
_PERIOD = "claims each period in onejob's store"
_FIRES = {
    "on_store_down": "fires unguarded where the store can't be reached",
    "on_unknown": "fires a tick again of which nobody knows whether it fired",
}
_LEASE = (
    "is a lease: no two at once, and one fire time may still run twice, one after the other; "
    "@app.once_per makes it once"
)
_EFFECT = "keeps its key in onejob's store: it takes effect once"
_TRANSACTION = "ends with its transaction: a replica that fires later runs again"
_TRANSACTION_LOCKS = ("onejob.transaction_lock", "onejob.atransaction_lock")


def find(module: Module) -> Iterator[Fact]:
    """Return the Apps, schedulers and schedules of a file, and what is handed to ``app.guard``."""
    yield from _objects(module)
    for function in module.functions:
        for decorator in function.decorator_list:
            yield from _scheduled(module, decorator, module.value(decorator), function)
    for call in module.calls:
        if isinstance(call.func, ast.Call) and call.args:
            yield from _scheduled(module, call, call.func, call.args[0])
        yield from _put(module, call)
        yield from _guarding(module, call)


def app_of(module: Module, node: ast.expr) -> str | None:
    """Return "" for an App, the dotted name of what may be one, None for what is none."""
    made = module.maker(node)
    if made == _PROJECT_S_APP:
        return ""
    if made in _APP:
        call = module.value(node)
        url = argument(call, 0, "url") if isinstance(call, ast.Call) else None
        # An App in this process's memory shares nothing with another process.
        return None if module.text(url).startswith("memory:") else ""
    function = module.local(made) if "." not in made else None
    if function is not None and _returns_app(module, function):
        return ""
    return absolute(module, made) if imported(module, made) else None


def method(module: Module, node: ast.AST | None) -> tuple[str, str] | None:
    """Return (name, needs) of a call of an App's method; None for any other expression."""
    node = module.value(node)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    needs = app_of(module, node.func.value)
    return None if needs is None else (node.func.attr, needs)


def library_of(made: str) -> str:
    """Return the library of a scheduler, as app.guard tells them apart; "" for any other object."""
    package, _, rest = made.partition(".")
    last = made.rpartition(".")[2]
    match package:
        case "apscheduler" | "flask_apscheduler" if last.endswith("Scheduler"):
            return "apscheduler"
        case "celery" if last in ("Celery", "current_app") or rest.startswith("beat."):
            return "celery"
        case "huey" if "huey" in last.lower():
            return "huey"
        case "rq" if rest == "cron" or rest.startswith("cron."):
            return "rq"
        case "taskiq" if last == "TaskiqScheduler":
            return "taskiq"
        case "schedule" if rest in ("", "Scheduler"):
            return "schedule"
        case _:
            return ""


def _returns_app(module: Module, function: FunctionNode) -> bool:
    if function.returns is not None and module.name(function.returns) in _APP:
        return True
    return any(
        isinstance(node, ast.Return) and node.value is not None and module.maker(node.value) in _APP
        for node in ast.walk(function)
    )


def _objects(module: Module) -> Iterator[Fact]:
    ours = module.uses("onejob")
    for name, value in module.values.items():
        if not isinstance(value, ast.Call):
            continue
        if ours and app_of(module, value) == "":
            yield Setting(SETTING, f"{module.dotted}.{name}", module.path, value.lineno)
        library = library_of(module.maker(value))
        if library:
            yield Scheduler(f"{module.dotted}.{name}", library, module.path, value.lineno)
    for function in module.functions if ours else ():
        if _returns_app(module, function):
            name = f"{module.dotted}.{function.name}"
            yield Setting(SETTING, name, module.path, function.lineno)


def _scheduled(
    module: Module, shown: ast.expr, made: ast.AST | None, function: FunctionNode | ast.expr
) -> Iterator[Trigger]:
    """State ``@app.cron(...)`` and ``@app.every(...)``, over a function or called with one."""
    found = method(module, made)
    if found is None or not isinstance(made, ast.Call) or found[0] not in ("cron", "every"):
        return
    attr, needs = found
    first = argument(made, 0, "expression", "interval")
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        name, target = function.name, module.qualified(function)
    else:
        target = target_name(module, function)
        name = target.rpartition(".")[2]
    when = _cron(module, first) if attr == "cron" else _interval(module, first)
    yield Trigger(
        kind="onejob",
        path=module.path,
        line=shown.lineno,
        language="python",
        name=module.text(keywords(made).get("name")) or name,
        schedule=when,
        target=target,
        guards=(*_never(when, shown.lineno), _guard(f"@app.{attr}", shown, _TICK)),
        alone=Verdict.GUARDED,
        needs=needs,
    )


def _put(module: Module, call: ast.Call) -> Iterator[Trigger]:
    """State ``app.schedules.put(...)``."""
    match call.func:
        case ast.Attribute(
            attr="put" | "aput" | "put_many" | "aput_many" as attr,
            value=ast.Attribute(attr="schedules", value=app),
        ):
            needs = app_of(module, app)
        case _:
            return
    if needs is None:
        return
    given = keywords(call)
    when = _cron(module, given.get("cron")) or _interval(module, given.get("every"))
    one = not attr.endswith("many")
    yield Trigger(
        kind="onejob",
        path=module.path,
        line=call.lineno,
        language="python",
        name=module.text(argument(call, 0, "name")) if one else "",
        schedule=when,
        target=target_name(module, given.get("job")),
        guards=(*_never(when, call.lineno), _guard(f"app.schedules.{attr}", call, _DATA)),
        alone=Verdict.GUARDED,
        needs=needs,
    )


def _cron(module: Module, node: ast.expr | None) -> str:
    return schedules.cron(module.text(node)) or timing.computed(module, node)


def _interval(module: Module, node: ast.expr | None) -> str:
    text = module.text(node)
    return f"every {text}"[: schedules.CHARACTERS_MAX] if text else timing.span(module, node)


def _never(when: str, line: int) -> tuple[Guard, ...]:
    return (Guard(when, Verdict.NEVER, line),) if when and schedules.never(when) else ()


def _guarding(module: Module, call: ast.Call) -> Iterator[Guarding]:
    """State ``app.guard(scheduler)``, unless it stands under ``if False``."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "guard" and call.args):
        return
    found = method(module, call)
    if found is None or _dead(module, call):
        return
    handed = call.args[0]
    guard = _guard("app.guard", call, _GUARD, found[1])
    yield Guarding(
        identity(module, handed), library_of(module.maker(handed)), module.path, call.lineno, guard
    )


def _dead(module: Module, node: ast.AST) -> bool:
    return any(
        isinstance(above, ast.If) and isinstance(above.test, ast.Constant) and not above.test.value
        for above in module.above(node)
    )


def _guard(name: str, call: ast.expr, why: str, needs: str = "") -> Guard:
    gives = Verdict.GUARDED
    named = keywords(call) if isinstance(call, ast.Call) else {}
    for option, fires in _FIRES.items():
        given = named.get(option)
        if isinstance(given, ast.Constant) and given.value == "fire":
            gives, why = Verdict.WEAK_GUARD, fires
    return Guard(name, gives, call.lineno, why, needs=needs)


def over(module: Module, decorator: ast.expr) -> Iterator[Guard]:
    """Return what ``@app.once_per(...)`` and ``@app.lock(...)`` over a function are."""
    found = method(module, decorator)
    made = module.value(decorator)
    match found:
        case ("once_per", needs) if isinstance(made, ast.Call):
            yield _guard("@app.once_per", made, _PERIOD, needs)
        case ("lock", needs):
            yield Guard("@app.lock", Verdict.NO_OVERLAP, decorator.lineno, _LEASE, needs=needs)
        case _:
            return


def wrapped(module: Module, node: ast.AST) -> Iterator[Guard]:
    """Return what a function is wrapped in that a call hands on: ``app.once_per("day")(send)``."""
    for each in (*node.args, *keywords(node).values()) if isinstance(node, ast.Call) else ():
        handed = module.value(each)
        if isinstance(handed, ast.Call) and isinstance(handed.func, ast.Call):
            yield from over(module, handed.func)


def held(module: Module, node: ast.expr) -> Iterator[Guard]:
    """Return what ``with app.lock(...)`` is."""
    match method(module, node):
        case ("lock", needs):
            yield Guard("with app.lock", Verdict.NO_OVERLAP, node.lineno, _LEASE, needs=needs)
        case _:
            return


def called(module: Module, call: ast.Call, *, tested: bool) -> Iterator[Guard]:
    """Return what a call in a body is: a key of onejob's, a lock of the transaction."""
    if module.name(call.func) in _TRANSACTION_LOCKS:
        yield Guard("transaction_lock", Verdict.NO_OVERLAP, call.lineno, _TRANSACTION)
    if not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)):
        return
    attr = call.func.attr
    if attr in ("effect", "aeffect") or (attr in ("first", "afirst") and tested):
        needs = app_of(module, call.func.value) if call.args else None
        if needs is not None:
            yield Guard(f"app.{attr}", Verdict.GUARDED, call.lineno, _EFFECT, needs=needs)
