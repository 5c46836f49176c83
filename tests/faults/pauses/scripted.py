"""The value in Redis, guarded by the script of docs/how-to/fencing.md; its history is a list.

Each attempt and the note of what the value then is are one MULTI: the list says what was there
after each, and a value that differs from the one before it has landed.
"""

from __future__ import annotations

from typing import Any

import redis

from docs.blocks import ROOT, blocks
from faults.pauses.effects import Landed

[SCRIPT] = [
    block.text for block in blocks(ROOT / "docs/how-to/fencing.md") if block.language == "lua"
]
#: The same without the value: what a new holder does first.
ANNOUNCE = SCRIPT.replace(", 'value', ARGV[2]", "")
_LOG = "redis.call('RPUSH', KEYS[2], redis.call('HGET', KEYS[1], 'value') or '')"


class Value:
    """Two keys: the value with its token, and what it has been."""

    def __init__(self, url: str, prefix: str) -> None:
        self._client: Any = redis.Redis.from_url(url, decode_responses=True, socket_timeout=20)
        self._value, self._history = f"{prefix}:value", f"{prefix}:history"

    def announce(self, token: int, who: str) -> None:
        """Show the value a new holder's token, then mark the history."""
        self._client.eval(ANNOUNCE, 1, self._value, token)
        self._client.rpush(self._history, f"mark {token} {who}")

    def write(self, token: int, who: str) -> bool:
        """Write under a token; False where the script refuses."""
        with self._client.pipeline(transaction=True) as both:
            both.eval(SCRIPT, 1, self._value, token, f"write {token} {who}")
            both.eval(_LOG, 2, self._value, self._history)
            [answer, _] = both.execute()
        return bool(answer)

    def landed(self) -> list[Landed]:
        """Return what the value has been, and the marks between."""
        found, value = [], ""
        for line in self._client.lrange(self._history, 0, -1):
            if not line or line == value:
                continue
            kind, token, who = line.split()
            value = line if kind == "write" else value
            found.append(Landed("script", kind, int(token), who))
        return found

    def close(self) -> None:
        self._client.close()
