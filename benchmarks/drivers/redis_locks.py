"""A free lock taken and given back on Redis, by one library each: ``NAME PORT PAIRS``.

Prints the p50 and p99 of a pair in microseconds, as JSON.
"""

# Their libraries are in environments of their own, where no type checker looks.
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

#: The first ones open connections and load scripts.
WARM = 50
TTL_SECONDS = 30
Pair = Callable[[], object]

DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"


def onejob(port: int) -> Pair:
    from onejob import App

    app = App(f"redis://127.0.0.1:{port}/0")

    def pair() -> None:
        with app.lock("one", ttl=TTL_SECONDS):
            pass

    return pair


def bare(port: int) -> Pair:
    import redis

    client = redis.Redis(port=port)
    delete = client.register_script(DELETE)

    def pair() -> None:
        assert client.set("one", "me", nx=True, px=TTL_SECONDS * 1000)
        assert delete(keys=["one"], args=["me"])

    return pair


def redis_py(port: int) -> Pair:
    import redis

    client = redis.Redis(port=port)

    def pair() -> None:
        with client.lock("one", timeout=TTL_SECONDS, blocking=False):
            pass

    return pair


def python_redis_lock(port: int) -> Pair:
    import redis
    import redis_lock

    client = redis.Redis(port=port)

    def pair() -> None:
        with redis_lock.Lock(client, "one", expire=TTL_SECONDS):
            pass

    return pair


def pottery(port: int) -> Pair:
    import redis
    from pottery import Redlock

    client = redis.Redis(port=port)

    def pair() -> None:
        with Redlock(key="one", masters={client}, auto_release_time=TTL_SECONDS):
            pass

    return pair


def sherlock(port: int) -> Pair:
    import redis
    from sherlock import RedisLock

    client = redis.Redis(port=port)

    def pair() -> None:
        with RedisLock("one", client=client, expire=TTL_SECONDS):
            pass

    return pair


KINDS: dict[str, Callable[[int], Pair]] = {
    kind.__name__: kind for kind in (onejob, bare, redis_py, python_redis_lock, pottery, sherlock)
}


def main() -> None:
    """Take and give back so many times, and print how long a pair took."""
    name, port, pairs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pair = KINDS[name](port)
    for _ in range(min(WARM, pairs)):
        pair()
    spans = []
    for _ in range(pairs):
        began = time.perf_counter()
        pair()
        spans.append((time.perf_counter() - began) * 1e6)
    quantiles = statistics.quantiles(spans, n=100)
    print(json.dumps({"p50": statistics.median(spans), "p99": quantiles[98]}))


if __name__ == "__main__":
    main()
