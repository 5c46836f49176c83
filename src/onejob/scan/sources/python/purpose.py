"""What a loop is for, by the names in it: its own process, one client, a person, a queue."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from onejob.scan.sources.python.module import FunctionNode, Module

_OWN = re.compile(
    r"heart_?beat|keep_?alive|watch_?dog|metric|liveness|readiness|health_?check|spinner|progress"
    r"|telemetry|gauge|statsd|profil|memory_(monitor|usage)|gc_|garbage|flush_?(logs?|stats|buffer)"
    r"|(upload|ship|forward|tail|rotate)_?logs?\b|logs?_(upload|ship|forward|flush)"
    r"|(refresh|renew|rotate|update)_?(auth_?)?(token|credential|certificate|cert|secret)s?\b"
    r"|(refresh|reload|clean|evict|expire|purge|invalidate|prune|sweep)_?(local_?|memory_?)?cache"
    r"|cache_?(refresh|clean|evict|sweep|expir)|reload_?(config|settings)|config_?(reload|watch)"
    r"|renew_?(lease|lock|lease)|lease_?renew|reap_?(zombie|child|process|idle)|idle_?(timeout|check)"
    r"|ping_?(loop|server|pong)|send_?ping|reconnect|connection_?(monitor|check)|event_loop_lag"
    r"|resource_?(monitor|usage)|monitor_?(memory|cpu|resource|process|thread|parent|loop)|autoreload"
    r"|file_?watch|watch_?(file|config|dir)",
    re.I,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
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
    for name in (function.name if function else "", owner.name if owner else ""):
        if _OWN.search(_CAMEL.sub("_", name)):
            return name
    named = [module.name(call.func).rpartition(".")[2] for call in calls]
    own = [name for name in named if _OWN.search(_CAMEL.sub("_", name))]
    rest = [name for name in named if name and name not in own and not _plain(name)]
    return own[0] if own and not rest else ""


def _plain(name: str) -> bool:
    """Calls that say nothing about the purpose."""
    return name in _PLAIN or name.startswith(("get_", "file_", "is_", "has_"))


_PLAIN_WORDS = """
    debug info warning error exception time monotonic now len str int format print is_set append
    items get set join round max min getLogger total_seconds utcnow range list dict values keys
"""
_PLAIN = frozenset(_PLAIN_WORDS.split())


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
