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
    """Read the options that are ours out of a URL; the driver reads the rest."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    wait, wait_ms = given.pop("wait", "0"), given.pop("wait_ms", str(WAIT_MS))
    if not (wait.isdigit() and wait_ms.isdigit() and int(wait_ms) > 0):
        raise UsageError(
            "wait= is a number of replicas and wait_ms= milliseconds: "
            "redis://host:6379/0?wait=1&wait_ms=200."
        )
    if int(wait) and parts.scheme == CLUSTER:
        raise UsageError("wait= is not for a cluster: its driver can't say which node to wait for.")
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(parts.scheme, parts.scheme)
    rest = urlunsplit(parts._replace(scheme=scheme, query=urlencode(given)))
    return Address(rest, int(wait), int(wait_ms))


def _by_sentinels(netloc: str, path: str, options: dict[str, Any]) -> Any:
    credentials, _, hosts = netloc.rpartition("@")
    service, _, number = path.strip("/").partition("/")
    if not service or (number and not number.isdigit()):
        raise UsageError(
            "a sentinel URL names the service after the hosts: "
            "redis+sentinel://host:26379,host:26379/mymaster/0."
        )
    sentinels = []
    for host in hosts.split(","):
        name, _, port = host.partition(":")
        sentinels.append((name, int(port or 26_379)))
    user, _, password = credentials.partition(":")
    if password:
        options |= {"username": unquote(user) or None, "password": unquote(password)}
    asked: Any = Sentinel
    sentinel = asked(sentinels, sentinel_kwargs={"socket_timeout": options["socket_timeout"]})
    return sentinel.master_for(service, db=int(number or 0), **options)
