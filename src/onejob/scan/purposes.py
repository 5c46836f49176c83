"""What background work is for, by the names in it: some is meant to run in each process."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OWN = re.compile(
    r"heart_?beat|keep_?alive|watch_?dog|metric|liveness|readiness|health_?check|spinner|progress"
    r"|telemetry|gauge|statsd|health_?monitor|profil|memory_(monitor|usage)|gc_|garbage|flush_?(logs?|stats|buffer)"
    r"|(upload|ship|forward|tail|rotate)_?logs?\b|logs?_(upload|ship|forward|flush)"
    r"|(refresh|renew|rotate|update)_?(auth_?|access_?)?(token|credential|certificate|cert|secret)s?\b"
    r"|(refresh|reload|clean(_?up)?|evict|expire|purge|invalidate|prune|sweep|flush|clear)_?"
    r"(local_?|memory_?|expired_?|stale_?)?(cache|rate_?limit|connection|socket)"
    r"|cache_?(refresh|clean|evict|sweep|expir)|reload_?(config|settings)|config_?(reload|watch)"
    r"|(renew|extend)_?(lease|lock)|lease_?renew|reap_?(zombie|child|process|idle)"
    r"|idle_?(timeout|check)|ping_?(loop|thread|server|pong|client|interval|timer)|send_?ping|reconnect"
    r"|connection_?(monitor|check)|event_?loop_?(lag|monitor)|rate_?limit"
    r"|resource_?(monitor|usage)|monitor_?(memory|cpu|resource|process|thread|parent|loop)"
    r"|check_?(child|process|parent)|supervis|autoreload|file_?watch|watch_?(file|config|dir)|debounce|throttle",
    re.I,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PLAIN_WORDS = """
    debug info warn warning error exception time monotonic now len str int format print is_set
    append items get set join round max min getLogger total_seconds utcnow range list dict values
    keys log push forEach map filter has delete catch then toString floor parseInt stringify parse
    emit resolve reject entries from includes
"""
_PLAIN = frozenset(_PLAIN_WORDS.split())


def own_purpose(around: Iterable[str], calls: Iterable[str]) -> str:
    """Return the name that shows that work serves its own process; "" for none.

    A name around it decides alone; the names that it calls decide when all of them say so.
    """
    for name in around:
        if name and _OWN.search(_CAMEL.sub("_", name)):
            return name
    named = [name for name in calls if name]
    own = [name for name in named if _OWN.search(_CAMEL.sub("_", name))]
    rest = [n for n in named if n not in own and not _plain(n)]
    return own[0] if own and not rest else ""


def _plain(name: str) -> bool:
    """Calls that say nothing about the purpose."""
    return name in _PLAIN or name.startswith(("get_", "file_", "is_", "has_", "is", "has"))
