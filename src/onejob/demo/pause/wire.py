"""A store's URL as it looks from behind a network that can stall."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from onejob.demo.pause.cast import Actor
from onejob.demo.pause.network import Network
from onejob.errors import UsageError

_HOST = re.compile(
    r"^(?P<before>[a-z+]+://(?:[^@/]*@)?)(?P<host>[\w.-]+)(?::(?P<port>\d+))?(?=/|$|\?)"
)
_PORTS = {"redis": 6379, "valkey": 6379, "postgresql": 5432, "postgres": 5432}


class Stalled:
    """The first one's network stands still, and it does not."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def begin(self, actor: Actor) -> None:
        """Keep what it sends from now on."""
        self._network.stall()
        actor.mark("freeze")

    def end(self, actor: Actor) -> None:
        """Deliver it."""
        self._network.flow()
        actor.mark("thaw")


@contextmanager
def through_a_network(url: str) -> Iterator[tuple[str, Stalled]]:
    """Yield the URL that leads through the network, and what stalls it."""
    found = _HOST.match(url)
    scheme = url.partition("://")[0]
    if found is None or scheme not in _PORTS:
        raise UsageError("--stall network needs one host in the URL: postgresql://host:5432/db.")
    port = int(found["port"] or _PORTS[scheme])
    with Network(found["host"], port) as network:
        yield f"{found['before']}127.0.0.1:{network.port}{url[found.end() :]}", Stalled(network)
