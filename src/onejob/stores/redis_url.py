"""What a Redis URL says, and the client that it asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import redis
from redis.cluster import RedisCluster
from redis.sentinel import Sentinel

from onejob.errors import UsageError

SENTINEL = "redis+sentinel"
CLUSTER = "redis+cluster"
#: How long WAIT may take where nobody says.
WAIT_MS = 500
#: Beyond it the driver would give its own reply up first, as a server that is silent.
WAIT_MS_MOST = 4_000
WAIT_MOST = 1_000
#: More than any server is configured for.
DATABASE_MOST = 1_000_000
#: What a lock's promises rest on is not for a URL to change.
_OURS = frozenset(
    {"socket_timeout", "socket_connect_timeout", "retry", "retry_on_timeout", "retry_on_error",
     "decode_responses", "encoding", "encoding_errors", "protocol", "db"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """A checked address. ``wait``: how many replicas must have what was taken."""

    url: str = field(repr=False)
    wait: int = 0
    wait_ms: int = WAIT_MS

    def client(self, **options: Any) -> Any:
        """Return a client of the right kind. Opens no connection."""
        parts = urlsplit(self.url)
        if parts.scheme == SENTINEL:
            return _by_sentinels(parts.netloc, parts.path, options)
        if parts.scheme == CLUSTER:
            url = urlunsplit(parts._replace(scheme="redis"))
            options.pop("retry")
            return RedisCluster.from_url(url, **options)
        return redis.Redis.from_url(self.url, **options)


def address(url: str) -> Address:
    """Read the options that are ours out of a URL, and check the rest as its driver will read it.

    Opens no connection. Raises UsageError.
    """
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    wait, wait_ms = given.pop("wait", "0"), given.pop("wait_ms", str(WAIT_MS))
    if not (_number(wait, 0, WAIT_MOST) and _number(wait_ms, 1, WAIT_MS_MOST)):
        raise UsageError(
            f"wait= is a number of replicas, {WAIT_MOST} at most, and wait_ms= milliseconds, "
            f"{WAIT_MS_MOST:,} at most: redis://host:6379/0?wait=1&wait_ms=200."
        )
    if int(wait) and parts.scheme == CLUSTER:
        raise UsageError("wait= is not for a cluster: its driver can't say which node to wait for.")
    if parts.scheme == SENTINEL and given:
        raise UsageError("a sentinel URL has no options but wait= and wait_ms=.")
    if ours := sorted(given.keys() & _OURS):
        raise UsageError(f"{ours[0]}= is set by onejob itself. Take it out of the Redis URL.")
    database = parts.path.strip("/") or "0"
    if parts.scheme != SENTINEL and not _number(database, 0, DATABASE_MOST):
        raise UsageError("a Redis URL ends with the number of a database: redis://host:6379/0.")
    if parts.scheme == CLUSTER and database != "0":
        raise UsageError("a cluster has database 0 only: redis+cluster://host:6379.")
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(parts.scheme, parts.scheme)
    netloc = parts.netloc or "localhost"
    query = urlencode(given)
    rest = urlunsplit(parts._replace(scheme=scheme, netloc=netloc, query=query))
    checked = Address(rest, int(wait), int(wait_ms))
    if scheme != CLUSTER:  # whose client connects as soon as it is made
        _check(checked)
    return checked


def _check(checked: Address) -> None:
    """Have the driver read it: what it can't read it would tell of at the first command."""
    try:
        pool = checked.client(socket_timeout=1.0).connection_pool
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError, AttributeError, redis.RedisError) as error:
        raise UsageError(
            "the driver of Redis (redis-py) can't read this URL. Write redis://host:6379/0, and "
            "after a ? only what its Connection takes, such as client_name=shop; ssl_… go with "
            "rediss://."
        ) from error


def _by_sentinels(netloc: str, path: str, options: dict[str, Any]) -> Any:
    credentials, _, hosts = netloc.rpartition("@")
    service, _, number = path.strip("/").partition("/")
    if not service or not _number(number or "0", 0, DATABASE_MOST):
        raise UsageError(
            "a sentinel URL names the service after the hosts: "
            "redis+sentinel://host:26379,host:26379/mymaster/0."
        )
    sentinels = []
    for host in hosts.split(","):
        place = urlsplit(f"//{host}")
        if not place.hostname:
            raise UsageError("a sentinel has no host: redis+sentinel://host:26379/mymaster/0.")
        sentinels.append((place.hostname, place.port or 26_379))
    user, _, password = credentials.partition(":")
    if password:
        options |= {"username": unquote(user) or None, "password": unquote(password)}
    asked: Any = Sentinel
    sentinel = asked(sentinels, sentinel_kwargs={"socket_timeout": options["socket_timeout"]})
    return sentinel.master_for(service, db=int(number or 0), **options)


def _number(text: str, least: int, most: int) -> bool:
    return text.isascii() and text.isdigit() and least <= int(text[:9]) <= most
