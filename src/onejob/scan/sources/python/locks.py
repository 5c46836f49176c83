"""Locks by what made them, and how far each of them reaches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onejob.scan.facts import Guard
from onejob.scan.finding import Verdict
from onejob.scan.sources.python import ours
from onejob.scan.sources.python.module import Module

_THREAD_LOCKS = ("threading.", "multiprocessing.", "asyncio.", "_thread.", "anyio.", "trio.")
_FILE_LOCKS = re.compile(
    r"filelock|fasteners|portalocker|lockfile|fcntl|flock|lockf|pidfile|PidFile|tendo|"
    r"SingleInstance|zc\.lockfile|InterProcessLock|msvcrt"
)
_COORDINATORS = re.compile(
    r"kazoo|etcd|consul|zookeeper|hazelcast|pysyncobj|kubernetes.*leader", re.I
)
_REDIS_LOCKS = re.compile(
    r"redlock|redis_lock|aioredlock|pottery|sherlock|redis.*lock|cache\.lock", re.I
)
_LOCK_WORD = re.compile(
    r"(?<![a-z])(un)?lock(ed|s|ing|er)?(?![a-z])|mutex|semaphore|exclusive", re.I
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
REDIS_WHY = "lapses when the job outlives it, and a failover of Redis can forget it"


def lock_of(module: Module, node: ast.expr) -> Iterator[Guard]:
    """Return the guard that a ``with`` item is, if it is one."""
    made = module.maker(node)
    said = module.name(node)
    both = f"{said} {made}"
    name = said.rpartition(".")[2] or "with"
    found = tuple(ours.held(module, node))
    yield from found
    if any(not guard.needs for guard in found):
        return
    if made.startswith(_THREAD_LOCKS):
        if _LOCK_WORD.search(made.replace("RLock", "Lock")) or made.endswith(("Semaphore",)):
            yield Guard(f"with {name}", Verdict.HOST_ONLY, node.lineno, "is of this process only")
    elif _FILE_LOCKS.search(both):
        yield Guard(f"with {name}", Verdict.HOST_ONLY, node.lineno, "is a file of this host")
    elif "advisory" in both.lower():
        yield advisory(node.lineno, xact="xact" in both.lower())
    elif _COORDINATORS.search(both):
        yield Guard(
            f"with {name}", Verdict.WEAK_GUARD, node.lineno, "fences nothing when a holder pauses"
        )
    elif _REDIS_LOCKS.search(both) or (
        _LOCK_WORD.search(_CAMEL.sub("_", name).lower()) and isinstance(node, ast.Call)
    ):
        yield Guard(f"with {name}", Verdict.WEAK_GUARD, node.lineno, REDIS_WHY)


def advisory(line: int, *, xact: bool) -> Guard:
    if xact:
        return Guard(
            "advisory lock",
            Verdict.NO_OVERLAP,
            line,
            "ends with its transaction: a replica that fires later runs again",
        )
    return Guard(
        "advisory lock",
        Verdict.WEAK_GUARD,
        line,
        "ends with its connection, and a replica that fires later runs again",
    )


def file_lock(module: Module, call: ast.Call) -> Guard | None:
    """Return the guard that a call for a lock of a file is."""
    name = module.name(call.func)
    if not name.startswith(("fcntl.", "portalocker.", "msvcrt.")):
        return None
    if not name.endswith(("lock", "lockf")):
        return None
    last = name.rpartition(".")[2]
    return Guard(last, Verdict.HOST_ONLY, call.lineno, "locks a file of this host")


def lapsing(module: Module, node: ast.expr, made: str) -> bool:
    """Decide whether an object sounds like a lock of which nothing more is known."""
    return _LOCK_WORD.search(_CAMEL.sub("_", f"{module.name(node)} {made}").lower()) is not None


def of_this_host(made: str) -> bool:
    """Decide whether what made a lock is a library of file locks."""
    return _FILE_LOCKS.search(made) is not None
