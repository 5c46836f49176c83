"""What a Python file starts: workers of a web server, schedulers in web apps and beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onejob.scan.facts import Launch
from onejob.scan.finding import Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.identity import identity
from onejob.scan.sources.python.module import Module, argument, keywords

_WEB = (
    "flask",
    "fastapi",
    "starlette",
    "quart",
    "sanic",
    "aiohttp",
    "litestar",
    "django",
    "falcon",
)
_START = re.compile(
    r"(start|init|run|setup|launch|boot|register)_?\w*(sched|cron|period|jobs?$|background)"
    r"|(sched|cron)\w*[._](start|init_app|run|startup)$|^start_jobs$",
    re.I,
)
_HOOKS = re.compile(
    r"lifespan|startup|create_app|make_app|ready|before_first_request|init_app", re.I
)
_BEAT = re.compile(r"\bcelery\b.*\bbeat\b|\bcelery\b.*\bworker\b.*\s(-B|--beat)\b", re.S)
_GUNICORN = re.compile(r"gunicorn[\w.-]*\.py|gunicorn_conf\w*\.py")
_SERVERS = ("uvicorn.run", "uvicorn.Config", "hypercorn.run", "granian.Granian")
_MULTIPLIES = "takes the number of its processes from {0}, and each process fires"


def find(module: Module) -> Iterator[Launch]:
    """Return the launches that this file is."""
    for call in module.calls:
        name = module.name(call.func)
        if name in ("uvicorn.run", "hypercorn.run", "granian.Granian") or (
            name.endswith("Config") and (name.startswith("uvicorn"))
        ):
            yield from _server(module, call)
        elif (
            name.endswith(".run") and "rq_scheduler" in f"{name} {module.maker(call.func)}".lower()
        ):
            yield _scheduler(module, call.lineno, "rq scheduler", ())
        elif _START.search(name) and _in_web(module, call):
            yield _in_web_app(module, call, name)
    if _GUNICORN.fullmatch(module.file.name):
        yield from _gunicorn(module)
    yield from _commands(module)


def _server(module: Module, call: ast.Call) -> Iterator[Launch]:
    workers = keywords(call).get("workers")
    if workers is None:
        return
    number = timing.number(module, workers)
    if number == 1:
        return
    source = module.name(workers) or "an expression"
    yield Launch(
        kind="web-workers",
        path=module.path,
        line=workers.lineno,
        language="python",
        name=module.text(argument(call, 0, "app")),
        fires="web",
        words=(module.dotted,),
        workers=int(number) if number is not None else None,
        verdict=Verdict.MULTIPLIER,
        why=f"starts {int(number)} processes, and each fires"
        if number is not None
        else _MULTIPLIES.format(source),
    )


def _gunicorn(module: Module) -> Iterator[Launch]:
    workers = module.values.get("workers")
    if workers is None or timing.number(module, workers) == 1:
        return
    number = timing.number(module, workers)
    yield Launch(
        kind="web-workers",
        path=module.path,
        line=workers.lineno,
        language="python",
        name="gunicorn",
        fires="web",
        workers=int(number) if number is not None else None,
        verdict=Verdict.MULTIPLIER,
        why="starts several workers, and each fires what it loads",
    )


def _in_web(module: Module, call: ast.Call) -> bool:
    if not module.uses(*_WEB):
        return False
    function = module.function_of(call)
    if function is not None:
        return bool(_HOOKS.search(function.name)) or any(
            _HOOKS.search(mark) or mark.endswith(("on_event", "on_startup", "before_serving"))
            for mark in module.marks(function)
        )
    # At the top of the file: not under `if __name__ == "__main__"`, which no server imports.
    return not any(
        isinstance(above, ast.If) and "__name__" in ast.unparse(above.test)
        for above in module.above(call)
    )


def _in_web_app(module: Module, call: ast.Call, name: str) -> Launch:
    return Launch(
        kind="scheduler-in-web",
        path=module.path,
        line=_switch(module, call),
        language="python",
        name=name.rpartition(".")[2],
        words=(module.dotted,),
        fires="web",
        embeds=True,
        verdict=Verdict.MULTIPLIER,
        why="starts the scheduler in the web application: each worker of each replica has one",
        scheduler=identity(module, call.func.value) if isinstance(call.func, ast.Attribute) else "",
    )


def _switch(module: Module, call: ast.Call) -> int:
    """Return the line of the condition that starts it, where the file's top has one."""
    if module.function_of(call) is None:
        for above in module.above(call):
            if isinstance(above, ast.If):
                return above.lineno
    return call.lineno


def _scheduler(module: Module, line: int, name: str, words: tuple[str, ...]) -> Launch:
    return Launch(
        kind="scheduler-command",
        path=module.path,
        line=line,
        language="python",
        name=name,
        words=words,
        fires="scheduler",
        replicas=None,
        workers=1,
        verdict=Verdict.SINGLE,
    )


def _commands(module: Module) -> Iterator[Launch]:
    """Command lines that the program puts together; only their shape gets into the fact."""
    for constant in module.strings:
        text = str(constant.value)
        if "celery" not in text or len(text) > 2_000 or _is_docstring(module, constant):
            continue
        if not _BEAT.search(text) or "celery.beat" in text or "\n\n" in text:
            continue
        embedded = "worker" in text
        on_host = "pidfile" in text
        verdict = (
            Verdict.MULTIPLIER if embedded else Verdict.HOST_ONLY if on_host else Verdict.SINGLE
        )
        yield Launch(
            kind="embedded-scheduler" if embedded else "scheduler-command",
            path=module.path,
            line=_last_line(constant),
            language="python",
            name="celery worker with beat" if embedded else "celery beat",
            fires="scheduler",
            embeds=embedded,
            workers=1,
            verdict=verdict,
            why="keeps a pidfile, which only this host sees" if on_host and not embedded else "",
        )


def _last_line(constant: ast.Constant) -> int:
    return max(constant.lineno, (constant.end_lineno or constant.lineno) - 1)


def _is_docstring(module: Module, constant: ast.Constant) -> bool:
    return isinstance(module.parents.get(constant), ast.Expr)
