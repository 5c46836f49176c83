"""``app.locks``: who holds what, and taking a lock away from its holder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from onejob.commands import leases
from onejob.core.hold import Listed, Standing
from onejob.core.names import check_name
from onejob.core.run import storable
from onejob.core.time import Instant, moment
from onejob.counts import LISTED_MAX, check_count
from onejob.errors import Refused, UsageError
from onejob.services import Services
from onejob.steps import Steps, acarry, carry


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock as the store has it.

    ``state`` is ``held``; ``kept`` (released, and taken for the rest of its minimum); ``lapsed``
    (its holder neither renewed nor released it); or ``free``. ``until`` is when a lease ends that
    is not renewed, ``protects`` the resources at which the token is announced.
    """

    name: str
    app: str
    state: str
    token: int
    holder: str
    since: datetime | None
    until: datetime | None
    waiting: int
    protects: tuple[str, ...]


# Under its own name, the type means the method to whoever reads the class.
_List: TypeAlias = list[LockInfo]


class Locks:
    """``app.locks``: look locks up, and break one whose holder must not go on."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def list(self, *, limit: int = 100) -> _List:
        """Read the locks of this App that are taken, by name."""
        services = self._services()
        return carry(_list(services.app, limit), services.run())

    async def alist(self, *, limit: int = 100) -> _List:
        """The same in a loop."""
        services = self._services()
        return await acarry(_list(services.app, limit), services.arun())

    def get(self, name: str) -> LockInfo | None:
        """Read one lock, also a free one; None where nobody has asked for it in a day or more."""
        services = self._services()
        return carry(_get(services.app, name), services.run())

    async def aget(self, name: str) -> LockInfo | None:
        """The same in a loop."""
        services = self._services()
        return await acarry(_get(services.app, name), services.arun())

    def break_(self, name: str, *, reason: str) -> LockInfo:
        """Take a lock away from its holder, and free it under a higher token.

        The holder is told within a third of its lease, and is refused at once by the lock's
        fenced transactions and at the resources that the lock protects; elsewhere it may go on
        until it looks. ``reason`` is recorded. Raises LookupError for a lock that is not taken,
        and Refused where it changed hands meanwhile or a fenced transaction of its holder is open.
        """
        services = self._services()
        return carry(broken(services.app, name, reason, by=services.owner), services.run())

    async def abreak_(self, name: str, *, reason: str) -> LockInfo:
        """The same in a loop."""
        services = self._services()
        steps = broken(services.app, name, reason, by=services.owner)
        return await acarry(steps, services.arun())


def broken(app: str, name: str, reason: str, *, by: str) -> Steps[LockInfo]:
    """Break one lock of an App; see :meth:`Locks.break_`."""
    check_name(name, what="lock name")
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError("reason is blank. Say why the lock is broken: others will read it.")
    taken: tuple[Listed, ...] = yield leases.listed(scope=app, name=name, limit=1)
    if not taken:
        raise LookupError(f"lock {name!r} of {app!r} is not taken: there is nothing to break.")
    asked = leases.break_(app, name, token=taken[0].standing.token, by=by, reason=storable(reason))
    after: Standing | None = yield asked
    if after is None:
        raise Refused(
            f"lock {name!r} changed hands meanwhile, or a fenced transaction of its holder is "
            "open (the store ends one that sits idle for a lease). Look at it again."
        )
    return info(after, taken[0].waiting)


def _list(app: str, limit: int) -> Steps[list[LockInfo]]:
    check_count(limit, what="limit", most=LISTED_MAX)
    found: tuple[Listed, ...] = yield leases.listed(scope=app, limit=limit)
    return [info(one.standing, one.waiting) for one in found]


def _get(app: str, name: str) -> Steps[LockInfo | None]:
    check_name(name, what="lock name")
    found: tuple[Listed, ...] = yield leases.listed(scope=app, name=name, free=True, limit=1)
    return info(found[0].standing, found[0].waiting) if found else None


def info(standing: Standing, waiting: int) -> LockInfo:
    """Show a lock to people."""
    return LockInfo(
        name=standing.name,
        app=standing.scope,
        state=standing.state,
        token=int(standing.token),
        holder=standing.holder,
        since=_moment(standing.acquired),
        until=_moment(standing.expires),
        waiting=waiting,
        protects=tuple(json.loads(standing.resources)),
    )


def _moment(at: int) -> datetime | None:
    return moment(Instant(at)) if at else None
