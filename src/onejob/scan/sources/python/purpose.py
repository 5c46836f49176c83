"""What a loop is for, by the names in it: its own process, one client, a person, a queue."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from onejob.scan.purposes import own_purpose
from onejob.scan.sources.python.module import FunctionNode, Module

_QUEUE_CALLS_WORDS = """
    receive_message receive_messages blpop brpop brpoplpush blmove bzpopmin xreadgroup xread
    basic_get basic_consume start_consuming dequeue reserve pull get_messages getmany getone
    fetch_task fetch_job next_job get_job claim_job claim_next acquire_job take_job pop_job
    lease_task poll_task fetch_jobs claim_jobs pop_task next_task get_next_job get_next_task
"""
_QUEUE_CALLS = frozenset(_QUEUE_CALLS_WORDS.split())
_BROKERS = ("kafka", "confluent_kafka", "aiokafka", "pika", "aio_pika", "kombu", "nats", "pulsar")
_SCREEN_WORDS = """
    clear cls refresh getch input prompt flip imshow waitKey rerun
"""
_SCREEN = frozenset(_SCREEN_WORDS.split())
_PEOPLE = ("curses", "pygame", "tkinter", "RPi", "cv2", "pynput", "pyautogui", "turtle", "board")
_CLIENTS = re.compile(r"websocket|^ws$|^request$|^sock$|^conn(ection)?$|^client$|^socket$", re.I)


def for_itself(module: Module, function: FunctionNode | None, calls: Iterable[ast.Call]) -> str:
    """Return the name that shows that a loop serves its own process; "" for none."""
    owner = module.class_of(function) if function is not None else None
    around = (function.name if function else "", owner.name if owner else "")
    return own_purpose(around, [module.name(call.func).rpartition(".")[2] for call in calls])


def consumes(module: Module, calls: Iterable[ast.Call]) -> bool:
    """Decide whether a loop takes work from a broker or a shared queue."""
    for call in calls:
        name = module.name(call.func)
        last = name.rpartition(".")[2]
        if last in _QUEUE_CALLS:
            return last != "pull" or module.uses("google.cloud", *_BROKERS)
        if last in ("poll", "consume", "recv", "receive") and module.uses(*_BROKERS):
            return True
    return False


def in_process(module: Module, calls: Iterable[ast.Call]) -> bool:
    """Decide whether a loop works off a queue of its own process: another process has its own."""
    for call in calls:
        name = module.name(call.func).lower()
        if name.endswith((".popleft", ".get_nowait")) or (
            name.endswith(".get") and "queue" in name.rpartition(".")[0]
        ):
            return True
    return False


def interactive(module: Module, calls: Iterable[ast.Call], node: ast.AST) -> bool:
    """Decide whether a loop draws for a person, or belongs to a machine on a desk."""
    if module.uses(*_PEOPLE):
        return True
    for call in calls:
        name = module.name(call.func)
        last = name.rpartition(".")[2]
        if (
            last in _SCREEN
            and not name.startswith(("cache", "self.cache"))
            and (last not in ("refresh", "clear") or module.uses("rich", "click", "curses", "os"))
        ):
            if last == "clear" and not name.startswith(("click", "console", "os", "rich")):
                continue
            if last == "refresh" and not name.startswith(("live", "stdscr", "screen", "console")):
                continue
            return True
        if any(k.arg == "end" for k in call.keywords) and last == "print":
            return True
    return any(
        isinstance(above, ast.With)
        and any(
            module.name(item.context_expr).endswith(("Live", "Progress", "tqdm", "Status"))
            for item in above.items
        )
        for above in module.above(node)
    )


def for_one_client(module: Module, function: FunctionNode | None) -> bool:
    """Decide whether a loop lives as long as one connection or request."""
    if function is None:
        return False
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    for each in arguments:
        hint = module.name(each.annotation) if each.annotation is not None else ""
        if _CLIENTS.search(each.arg) and each.arg not in ("conn", "connection", "client"):
            return True
        if hint.endswith(("WebSocket", "Request", "ServerConnection")):
            return True
    return any(".route" in name or ".websocket" in name for name in module.marks(function))
