"""The same on Redis: a key for the lock, a hash for the document, a list of what has landed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onejob.url import parse

#: As in every tutorial: SET NX PX, and a DEL that asks nobody.
_WRITE = """
redis.call('HSET', KEYS[1], 'writer', ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
return 1
"""

#: The comparison and the write are one script, so nothing comes in between.
_WRITE_IF = """
local seen = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if seen > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'writer', ARGV[1], 'token', ARGV[2])
redis.call('RPUSH', KEYS[2], ARGV[1])
return 1
"""

#: A new holder shows its token before it does anything, so that an older one is refused even where
#: it would have written first.
_ANNOUNCE = """
local seen = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if seen > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
return 1
"""

#: The key of the work and its effect in one script: the second finds the key.
_WRITE_ONCE = """
if redis.call('HSETNX', KEYS[1], 'done:' .. ARGV[2], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'writer', ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
return 1
"""


@dataclass(frozen=True, slots=True)
class RedisDesk:
    """Keys under one prefix."""

    url: str
    schema: str

    def check(self) -> None:
        """Raise StoreUnavailable unless the server answers."""
        from onejob.stores.redis import RedisStore

        store = RedisStore(self.url, schema=self.schema, where=parse(self.url).where)
        try:
            store.check()
        finally:
            store.close()

    def take(self, who: str, seconds: float) -> bool:
        return bool(self._client().set(self._key("lock"), who, nx=True, px=int(seconds * 1000)))

    def drop(self) -> None:
        self._client().delete(self._key("lock"))

    def write(self, who: str) -> None:
        self._script(_WRITE, who)

    def write_if(self, who: str, token: int) -> bool:
        return self._script(_WRITE_IF, who, token)

    def seen(self) -> int:
        """Return the highest token that was shown at the document."""
        return int(self._client().hget(self._key("document"), "token") or 0)

    def announce(self, token: int) -> bool:
        """Show the document a new holder's token."""
        return self._script(_ANNOUNCE, token)

    def write_once(self, who: str, key: str) -> bool:
        """Write unless the work of this key was done."""
        return self._script(_WRITE_ONCE, who, key)

    def landed(self) -> list[str]:
        return list(self._client().lrange(self._key("landed"), 0, -1))

    def remove(self) -> None:
        """Delete everything under the prefix, onejob's own keys too."""
        client = self._client()
        for key in client.scan_iter(f"{{{self.schema}}}:*", count=1_000):
            client.delete(key)

    def _script(self, text: str, *values: object) -> bool:
        keys = (self._key("document"), self._key("landed"))
        return bool(self._client().eval(text, len(keys), *keys, *values))

    def _key(self, name: str) -> str:
        return f"{{{self.schema}}}:pause:{name}"

    def _client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url, decode_responses=True)
