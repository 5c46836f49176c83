"""What an App offers about exclusion: locks by lease, and fences at the resource."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from random import Random

from onejob.commands import fences
from onejob.core.lease import LEAST_LEASE
from onejob.core.names import check_name
from onejob.core.run import Token
from onejob.core.time import Duration, Span, duration
from onejob.errors import UsageError
from onejob.lock import Lock, OnLost
from onejob.services import Services, required
from onejob.steps import Steps, acarry, carry
from onejob.waiting import Waiters, Wanted

#: The most resources that one lock announces its token at.
PROTECTS_MOST = 100


class Locking:
    """``app.lock`` and ``app.fence``."""

    def __init__(self, services: Callable[[], Services], random: Random) -> None:
        self._services, self._random = services, random
        self._waiters = Waiters()

    def after_fork(self) -> None:
        """Forget, in a forked child, who waits in its parent."""
        self._waiters.after_fork()

    def lock(
        self,
        name: str,
        *,
        ttl: Duration = "30s",
        wait: Duration = 0,
        at_least: Duration | None = None,
        on_lost: OnLost | None = None,
        protects: str | Collection[str] = (),
    ) -> Lock:
        """Return lock ``name`` of this App, to be held by ``with``, ``async with`` or a decorator.

        Held until the block ends, renewed meanwhile from a thread of its own, and free ``ttl``
        after its holder has died or fallen silent. ``wait`` is how long to wait for whoever holds
        it (0: not at all), ``at_least`` how long it stays taken at the least, released or not.
        ``on_lost(lease)`` is called once if it is lost, from another thread. The token is announced
        at the resources that the lock ``protects``, so that ``app.fence`` refuses older ones there.

        Entering raises NotAcquired; leaving raises LeaseLost where the lock was lost in the block.
        """
        if on_lost is not None and not callable(on_lost):
            raise UsageError(f"on_lost={on_lost!r} cannot be called. Give a function of one lease.")
        if wait is None:
            raise UsageError(
                "wait=None would wait for ever. Say how long: wait='1h', or 0 for not at all."
            )
        try:
            wanted = _known(name, ttl, wait, at_least, protects)  # type: ignore[arg-type]
        except TypeError:  # a list of resources
            wanted = _wanted(name, ttl, wait, at_least, protects)
        return Lock(wanted, self._services, self._waiters, self._random, on_lost)

    def fence(self, resource: str, token: int, *, within: object) -> None:
        """Refuse a token that is older than one known at ``resource``, in your transaction.

        Call it before you write there: nobody with another token writes beside it until your
        transaction ends. ``resource`` is your name for what is protected. An equal token passes.
        Raises StaleToken: roll back, and stop. UsageError for what no store can have given out.
        """
        services = self._services()
        adapter = services.adapted(required(within))
        carry(_fence(services, resource, token), services.through(adapter))

    async def afence(self, resource: str, token: int, *, within: object) -> None:
        """The same in a loop."""
        services = self._services()
        adapter = services.aadapted(required(within))
        await acarry(_fence(services, resource, token), services.athrough(adapter))


def _wanted(
    name: str,
    ttl: Duration,
    wait: Duration,
    at_least: Duration | None,
    protects: str | Collection[str],
) -> Wanted:
    return Wanted(
        name=check_name(name, what="lock name"),
        ttl=duration(ttl, what="ttl", least=LEAST_LEASE),
        wait=duration(wait, what="wait"),
        at_least=Span(0) if at_least is None else duration(at_least, what="at_least"),
        protects=_resources(protects),
    )


# Typed, so that no True is taken for a 1 that was found good before.
_known = lru_cache(maxsize=256, typed=True)(_wanted)


def _fence(services: Services, resource: str, token: int) -> Steps[None]:
    check_name(resource, what="resource")
    if not isinstance(token, int) or isinstance(token, bool) or not 0 < token < fences.TOKENS_BELOW:
        raise UsageError(f"token={token!r} is no fencing token. Give lease.token, or run.token.")
    held = Token(token)
    passed = yield fences.check(services.app, resource, held, idle_limit=services.longest)
    if not passed:
        known = yield fences.known(services.app, resource)
        raise fences.refused(resource, held, known)


def _resources(protects: str | Collection[str]) -> tuple[str, ...]:
    if not isinstance(protects, Collection):
        raise UsageError(
            f"protects={protects!r} names no resources. Give a name, or a list of names."
        )
    given = (protects,) if isinstance(protects, str) else tuple(protects)
    if len(given) > PROTECTS_MOST:
        raise UsageError(
            f"protects names {len(given):,} resources, the limit is {PROTECTS_MOST}. Name what "
            "belongs together once."
        )
    return tuple(sorted({check_name(resource, what="resource") for resource in given}))
