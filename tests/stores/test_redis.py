"""What is particular to Redis: wiped data, forgotten scripts, keys that go by themselves."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from onejob.commands import claims, fences, leases, runs, views
from onejob.commands.claims import Won
from onejob.commands.command import Command
from onejob.core.hold import Grip, Standing
from onejob.core.run import Token
from onejob.core.time import DAY, HOUR, SECOND, Span
from onejob.errors import OutcomeUnknown, StoreUnavailable, UnsupportedByStore, UsageError
from onejob.stores.redis import RedisStore
from servers.redis import PrivateRedis, free_port

TTL = Span(10 * SECOND)


def taken(store: RedisStore, owner: str, name: str = "reindex", ttl: Span = TTL) -> Standing:
    answer = store.run(leases.acquire("shop", name, owner=owner, holder=owner, ttl=ttl))
    assert answer is not None
    assert answer.owner == owner
    return answer


def grip(standing: Standing) -> Grip:
    return Grip(standing.scope, standing.name, standing.token, standing.owner)


def keys_of(store: RedisStore, client: redis.Redis) -> list[str]:
    return [key.decode() for key in client.scan_iter(f"{{{store.schema}}}:*")]


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def test_tokens_rise_after_everything_was_wiped(
    redis_store: RedisStore, client: redis.Redis
) -> None:
    """C10, C09: what a failover without the last writes looks like to whoever comes next."""
    before = taken(redis_store, "a")
    client.delete(*keys_of(redis_store, client))

    after = taken(redis_store, "b")

    assert after.token > before.token
    assert redis_store.run(leases.renew([(grip(before), TTL)])) == frozenset()
    assert not redis_store.run(leases.release(grip(before)))


def test_tokens_rise_where_the_last_one_is_ahead_of_the_clock(
    redis_store: RedisStore, client: redis.Redis
) -> None:
    """A server's clock that was set back never hands a number out twice."""
    ahead = 2**52
    stock = f"{{{redis_store.schema}}}:fence:shop\0stock"
    client.hset(stock, "token", ahead + 7)
    first = taken(redis_store, "a")
    assert redis_store.run(leases.release(grip(first)))
    # What is known is above the clock, so a token of as much is one that was given out.
    row = f"{{{redis_store.schema}}}:lease:shop\0reindex"
    client.hset(row, "token", ahead)
    assert redis_store.run(fences.check("shop", "stock", Token(ahead + 7), idle_limit=TTL))

    second = taken(redis_store, "b")
    assert second.token == ahead + 1
    redis_store.run(leases.release(grip(second)))
    protecting = redis_store.run(
        leases.acquire("shop", "other", owner="c", holder="c", ttl=TTL, resources=["stock"])
    )
    assert protecting is not None
    assert protecting.token == ahead + 8


def test_a_server_that_forgot_its_scripts_and_connections_goes_on(
    redis_store: RedisStore, client: redis.Redis
) -> None:
    """C11"""
    held = taken(redis_store, "a")
    client.script_flush()
    [own] = [c for c in client.client_list() if c["id"] == str(client.client_id())]
    for one in client.client_list():
        if one["db"] == own["db"] and one["id"] != own["id"] and "evalsha" in one["cmd"]:
            client.client_kill_filter(_id=one["id"])

    assert redis_store.run(leases.renew([(grip(held), TTL)])) == {"a"}
    assert taken(redis_store, "b", "other").owner == "b"


def test_every_key_but_the_counters_goes_by_itself(
    redis_store: RedisStore, client: redis.Redis
) -> None:
    """C05: nothing has to be swept for the server not to fill up."""
    store = redis_store
    for number in range(20):
        taken(store, "a", f"lock-{number}")
    store.run(leases.acquire("shop", "fenced", owner="a", holder="a", ttl=TTL, resources=["x"]))
    claim = store.run(claims.take("period", "digest", "1", owner="a", lease=10 * SECOND, keep=DAY))
    assert isinstance(claim, Won)
    store.run(claims.end(claim.claim, keep=DAY))

    root = f"{{{store.schema}}}:"
    lasting = {key for key in keys_of(store, client) if client.pttl(key) == -1}

    # A counter, and lists that are trimmed as they grow.
    lists = {f"{root}leases", f"{root}fences", f"{root}claims:period"}
    assert lasting == {f"{root}token", *lists}


def test_the_list_of_locks_forgets_what_has_gone(
    redis_store: RedisStore, client: redis.Redis
) -> None:
    """C05"""
    long_ago = int(time.time() * SECOND) - 3 * DAY
    for number in range(50):
        old = leases.acquire("shop", f"old-{number}", owner="a", holder="a", ttl=TTL, now=long_ago)
        redis_store.run(old)

    for _ in range(200):  # one in sixteen tidies
        redis_store.run(leases.release(grip(taken(redis_store, "b", "new"))))

    assert client.zcard(f"{{{redis_store.schema}}}:leases") == 1


def test_large_numbers_come_back_with_all_their_digits(redis_store: RedisStore) -> None:
    now = 1_780_000_000_123_457
    standing = redis_store.run(
        leases.acquire("shop", "reindex", owner="a", holder="a", ttl=Span(1), now=now)
    )
    assert standing is not None
    assert (standing.acquired, standing.expires, standing.now) == (now, now + 1, now)
    token = Token(now + 1)
    assert redis_store.run(fences.check("shop", "x", token, idle_limit=TTL))
    assert redis_store.run(fences.known("shop", "x")) == token
    assert not redis_store.run(fences.check("shop", "x", Token(now), idle_limit=TTL))


def test_a_command_that_redis_cannot_carry_is_named_with_the_way_out(
    redis_store: RedisStore,
) -> None:
    with pytest.raises(UnsupportedByStore, match="postgresql://"):
        redis_store.run(runs.by_key(runs.Kind.RUN, "mail", "1"))
    with pytest.raises(UnsupportedByStore, match="join your transaction"):
        redis_store.run(views.clock(), within=object())  # type: ignore[arg-type]
    with (
        pytest.raises(UnsupportedByStore, match="Compare the fencing token"),
        redis_store.transaction(longest=TTL),
    ):
        pass


def test_a_server_that_is_not_there_is_unavailable_and_nothing_is_guessed() -> None:
    store = RedisStore(f"redis://:secret@127.0.0.1:{free_port()}/0", where="127.0.0.1/0")

    with pytest.raises(StoreUnavailable) as raised:
        store.run(claims.take("period", "x", "1", owner="a", lease=SECOND, keep=HOUR))

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("failure", [redis.TimeoutError, redis.ConnectionError])
def test_what_was_never_sent_is_no_unknown_outcome(
    failure: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*given: object, **more: object) -> None:
        raise failure("nobody answers")

    monkeypatch.setattr(redis.Connection, "connect", unreachable)
    alone, replicated = (RedisStore(f"redis://127.0.0.1/0{query}") for query in ("", "?wait=1"))

    with pytest.raises(StoreUnavailable, match="nobody answers"):
        alone.run(fences.check("shop", "stock", Token(1), idle_limit=TTL))
    with pytest.raises(StoreUnavailable, match="nobody answers"):
        taken(replicated, "a")


def test_what_too_few_replicas_have_is_unknown(redis_url: str, redis_schema: str) -> None:
    """C10: asked to wait for a replica where there is none, nothing is called certain."""
    store = RedisStore(f"{redis_url}?wait=1&wait_ms=20", schema=redis_schema)

    with pytest.raises(OutcomeUnknown, match="0 of 1 replicas"):
        taken(store, "a")

    store.close()


def test_a_refusal_waits_for_no_replica(redis_store: RedisStore, redis_url: str) -> None:
    """Who is refused knows it: nothing was given, so nothing can be lost with the master."""
    taken(redis_store, "a")
    store = RedisStore(f"{redis_url}?wait=1&wait_ms=20", schema=redis_store.schema)

    answer = store.run(leases.acquire("shop", "reindex", owner="b", holder="b", ttl=TTL))

    store.close()
    assert answer is not None
    assert answer.owner == "a"


@pytest.mark.slow
def test_an_answer_that_was_asked_for_twice_is_waited_for_too(redis_schema: str) -> None:
    """WAIT speaks of its own connection, and the lock was written over another one."""
    master, replica = PrivateRedis(), PrivateRedis()
    try:
        with redis.Redis.from_url(replica.url) as client:
            client.replicaof("127.0.0.1", master.port)
        with redis.Redis.from_url(master.url) as client:
            eventually(lambda: int(client.execute_command("WAIT", 1, 100)) == 1)
        replica.process.send_signal(signal.SIGSTOP)
        lost = RedisStore(master.url, schema=redis_schema)
        taken(lost, "a")
        store = RedisStore(f"{master.url}?wait=1&wait_ms=50", schema=redis_schema)

        with pytest.raises(OutcomeUnknown, match="0 of 1 replicas"):
            taken(store, "a")

        store.close()
        lost.close()
    finally:
        replica.stop()
        master.stop()


@pytest.mark.parametrize("key", ["lease:shop\0reindex", "leases", "fence:shop\0stock"])
def test_keys_that_somebody_else_wrote_are_told_of(
    key: str, redis_store: RedisStore, client: redis.Redis
) -> None:
    client.set(f"{{{redis_store.schema}}}:{key}", "of another kind")
    asked = leases.acquire("shop", "reindex", owner="a", holder="a", ttl=TTL, resources=["stock"])

    with pytest.raises(StoreUnavailable, match="schema="):
        redis_store.run(asked)


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1/shop",
        "redis://127.0.0.1/-1",
        "redis://127.0.0.1:99999/0",
        "redis://127.0.0.1/0?no_such_option=1",
        "redis://127.0.0.1/0?ssl_cert_reqs=none",
        "redis://127.0.0.1/0?health_check_interval=often",
        "redis://127.0.0.1/0?socket_timeout=60",
        "redis://127.0.0.1/0?retry=3",
        "redis://127.0.0.1/0?db=1",
        "redis+cluster://127.0.0.1/3",
        "redis+sentinel://127.0.0.1/shop/0?client_name=x",
        "redis+sentinel://127.0.0.1/shop/zero",
        "redis+sentinel://:26379/shop",
    ],
)
def test_a_url_that_the_driver_would_stumble_over_is_refused_at_once(url: str) -> None:
    with pytest.raises(UsageError):
        RedisStore(url)


@pytest.mark.parametrize("path", ["/999", "/999?wait=1"])
def test_a_database_that_the_server_has_not_is_unavailable(path: str, redis_url: str) -> None:
    store = RedisStore(redis_url.rpartition("/")[0] + path)

    with pytest.raises(StoreUnavailable, match="out of range"):
        taken(store, "a")
    with pytest.raises(StoreUnavailable, match="out of range"):
        store.check()

    store.close()


def test_a_cluster_that_is_none_is_unavailable(redis_url: str) -> None:
    store = RedisStore(redis_url.replace("redis://", "redis+cluster://").rpartition("/")[0])

    with pytest.raises(StoreUnavailable, match="luster"):
        taken(store, "a")


@pytest.mark.parametrize(
    "query", ["wait=x", "wait=1&wait_ms=0", "wait=-1", "wait=1&wait_ms=60000", "wait=99999999999"]
)
def test_a_wait_that_means_nothing_is_refused(query: str) -> None:
    with pytest.raises(UsageError, match="wait="):
        RedisStore(f"redis://127.0.0.1/0?{query}")


@pytest.mark.slow
def test_a_lock_that_a_replica_has_survives_its_master(redis_schema: str) -> None:
    """C10: through sentinels, with WAIT, over a real failover."""
    master, replica = PrivateRedis(), PrivateRedis()
    sentinel = None
    try:
        redis.Redis.from_url(replica.url).replicaof("127.0.0.1", master.port)
        sentinel = Sentinel(master.port)
        eventually(lambda: redis.Redis.from_url(master.url).wait(1, 100) == 1)
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/shop/0?wait=1"
        store = RedisStore(url, schema=redis_schema)
        # Longer than any failover here: a lease that ends meanwhile is not renewed.
        held = taken(store, "a", ttl=Span(60 * SECOND))
        eventually(sentinel.knows_a_replica)

        master.process.kill()

        eventually(lambda: renews(store, held), seconds=30)
        alone = RedisStore(url.removesuffix("?wait=1"), schema=redis_schema)
        assert asked(alone, "b").owner == "a"
        store.close()
        alone.close()
    finally:
        for server in (sentinel, replica, master):
            if server is not None:
                server.stop()


@pytest.mark.slow
def test_the_keys_of_one_app_stand_in_one_slot_of_a_cluster(redis_schema: str) -> None:
    # Nodes of a cluster talk on a port of their own, ten thousand higher.
    server = PrivateRedis("--cluster-enabled", "yes", port=free_port(highest=55_535))
    try:
        with redis.Redis.from_url(server.url) as node:
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            eventually(lambda: node.cluster("INFO").get("cluster_state") == "ok")
        store = RedisStore(f"redis+cluster://127.0.0.1:{server.port}", schema=redis_schema)

        held = taken(store, "a")

        assert asked(store, "b").owner == "a"
        assert store.run(leases.release(grip(held)))
        store.close()
    finally:
        server.stop()


def asked(store: RedisStore, owner: str) -> Standing:
    answer = store.run(leases.acquire("shop", "reindex", owner=owner, holder=owner, ttl=TTL))
    assert answer is not None
    return answer


def renews(store: RedisStore, held: Standing) -> bool:
    try:
        return store.run(leases.renew([(grip(held), Span(60 * SECOND))])) == {"a"}
    except (StoreUnavailable, OutcomeUnknown):
        return False


def eventually(happens: Callable[[], bool], seconds: float = 10.0) -> None:
    give_up_at = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.05)


class Sentinel:
    """One sentinel that watches one master, alone, and is quick to judge."""

    def __init__(self, master: int) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="onejob-sentinel-")
        self.port = free_port()
        configuration = Path(self._directory.name) / "sentinel.conf"
        configuration.write_text(
            f"port {self.port}\nbind 127.0.0.1\n"
            f"sentinel monitor shop 127.0.0.1 {master} 1\n"
            "sentinel down-after-milliseconds shop 500\n"
            "sentinel failover-timeout shop 2000\n"
        )
        self.process = subprocess.Popen(
            [_binary(), str(configuration), "--sentinel"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def knows_a_replica(self) -> bool:
        with redis.Redis(port=self.port) as client:
            return len(client.sentinel_slaves("shop")) == 1

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._directory.cleanup()


def _binary() -> str:
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    assert found is not None, "PrivateRedis has found it"
    return found


@pytest.mark.slow
def test_a_server_that_is_full_is_not_there_for_what_would_write() -> None:
    """C18: it answers, and nothing was done."""
    server = PrivateRedis()
    try:
        store = RedisStore(server.url)
        first = taken(store, "a")
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", "1mb")
        writes: list[Command[Any]] = [
            leases.release(grip(first)),
            leases.renew([(grip(first), TTL)]),
        ]
        for command in writes:
            with pytest.raises(StoreUnavailable, match="memory"):
                store.run(command)
        store.close()
    finally:
        server.stop()
