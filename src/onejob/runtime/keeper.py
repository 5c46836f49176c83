"""The keeper: one lease for the whole process, renewed from a thread of its own.

1. Join under a new id; the deadline counts from before the request was sent.
2. Renew at a third of the lease. A failed renewal is tried again soon, until the deadline.
3. Past the deadline, or refused (declared dead), the membership is lost for good: everybody here is
   told first, then the keeper joins again under another id.

It stops renewing when the replica's loop has stopped beating for good (``core.lease.stall_limit``):
a process whose loop is stuck forever must not keep its runs from the others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from random import Random

from onejob.commands import replicas
from onejob.core import lease as rules
from onejob.core.run import ReplicaId
from onejob.errors import StoreError
from onejob.runtime.clock import Clock
from onejob.runtime.events import Events, log
from onejob.runtime.lane import KeeperHost
from onejob.runtime.membership import Membership
from onejob.runtime.settings import Settings

#: The longest pause between two tries to join while the store is unreachable.
JOIN_PAUSE_MOST = 5_000_000


def fresh_id() -> ReplicaId:
    """Return an id that no replica has had: random, since numbers can repeat after a failover."""
    return ReplicaId(secrets.token_hex(6))


class Keeper:
    """Holds this process's place in the fleet."""

    def __init__(
        self,
        host: KeeperHost,
        settings: Settings,
        *,
        jobs: tuple[str, ...],
        schedules: dict[str, str],
        ticks: tuple[str, ...] = (),
        clock: Clock,
        random: Random,
        events: Events,
        joined: Callable[[Membership], None],
        lost: Callable[[Membership], None],
        hinted: Callable[[], None],
        new_id: Callable[[], ReplicaId] = fresh_id,
    ) -> None:
        self._host, self._settings, self._clock, self._random = host, settings, clock, random
        self._jobs, self._schedules, self._events = jobs, schedules, events
        self._ticks = ticks
        self._joined, self._lost, self._hinted, self._new_id = joined, lost, hinted, new_id
        self._stopping = False
        self._renew_at = 0
        self._beat_at = clock.now()

    def beat(self) -> None:
        """Say that the replica's loop is alive. Called from that loop."""
        self._beat_at = self._clock.now()

    def stop(self) -> None:
        """Leave the fleet and end. Safe from any thread."""
        self._stopping = True
        self._host.wake()

    async def keep(self) -> None:
        """Join, renew, and join again when lost, until stopped."""
        failures = 0
        while not self._stopping:
            try:
                membership = await self._join()
            except Exception as error:  # noqa: BLE001 - a loop's edge: told, and tried again
                failures += 1
                self._trouble("join", error)
                await self._host.pause(self._backoff(failures))
                continue
            failures = 0
            self._host.tell(self._joined, membership)
            self._events.emit("replica.joined", replica=membership.id)
            await self._hold(membership)

    async def _join(self) -> Membership:
        settings = self._settings
        asked_at = self._clock.now()
        id = self._new_id()
        await self._host.own(
            replicas.join(
                replicas.NewReplica(
                    id=id,
                    name=settings.name,
                    host=settings.host,
                    pid=settings.pid,
                    version=settings.version,
                    jobs=self._jobs,
                    schedules=self._schedules,
                    lease=settings.lease,
                    ticks=self._ticks,
                )
            )
        )
        self._renew_at = asked_at + rules.renew_every(settings.lease)
        deadline = rules.deadline(asked_at=asked_at, lease=settings.lease)
        return Membership(id, deadline, punctual_since=self._clock.now())

    async def _hold(self, membership: Membership) -> None:
        while not self._stopping:
            if await self._host.pause(self._renew_at - self._clock.now()):
                self._host.tell(self._hinted)
            now = self._clock.now()
            if why := self._over(membership, now):
                await self._lose(membership, why)
                return
            if now >= self._renew_at and not await self._renew(membership):
                return
        membership.lost = "its replica has left the fleet"
        await self._leave(membership)
        self._events.emit("replica.left", replica=membership.id)

    async def _renew(self, membership: Membership) -> bool:
        lease = self._settings.lease
        asked_at = self._clock.now()
        late = asked_at - self._renew_at
        if late > rules.renew_every(lease):
            self._events.emit("keeper.late", replica=membership.id, seconds=late / 1e6)
        try:
            alive = await self._host.own(replicas.renew(membership.id, lease=lease))
        except Exception as error:  # noqa: BLE001 - whatever it is, the deadline decides
            self._trouble("renew", error)
            self._renew_at = self._clock.now() + lease // 12
            membership.punctual_since = self._clock.now()
            return True
        if not alive:
            await self._lose(membership, "another replica declared this one dead")
            return False
        # The reply may have come after everybody here has stopped believing in the lease.
        if why := self._over(membership, self._clock.now()):
            await self._lose(membership, why)
            return False
        membership.deadline = rules.deadline(asked_at=asked_at, lease=lease)
        if self._clock.now() - self._renew_at > rules.margin(lease):
            membership.punctual_since = self._clock.now()
        self._renew_at = asked_at + rules.renew_every(lease)
        return True

    def _over(self, membership: Membership, now: int) -> str:
        if now >= membership.deadline:
            return "its replica could not renew its lease in time"
        if self._silent():
            return "its replica's loop has not answered for too long"
        return ""

    async def _lose(self, membership: Membership, why: str) -> None:
        # Said before anything else, the log included: handlers read it from their own threads.
        membership.lost = why
        self._host.tell(self._lost, membership)
        # No word to the store: the lease ends there by itself, a margin later, and until then the
        # handlers here have time to hear of it.
        self._events.emit("replica.lost", replica=membership.id, why=why)
        # A loop that answers no more must not be given a new lease to sit on.
        while not self._stopping and self._silent():
            await self._host.pause(rules.renew_every(self._settings.lease))

    def _silent(self) -> bool:
        return self._clock.now() - self._beat_at > rules.stall_limit(self._settings.lease)

    async def _leave(self, membership: Membership) -> None:
        """Let the others have what is left at once, instead of after the lease."""
        try:
            await self._host.own(replicas.leave(membership.id))
        except Exception as error:  # noqa: BLE001 - the lease ends by itself
            self._trouble("leave", error)

    def _trouble(self, doing: str, error: Exception) -> None:
        """Tell of an error. None of them may end the keeper: nobody would say that it is gone."""
        if isinstance(error, StoreError):
            self._events.emit("store.trouble", doing=doing, error=str(error))
            return
        log.error("the keeper could not %s", doing, exc_info=error)
        why = f"{type(error).__name__}: {error}"
        self._events.emit("loop.error", loop="keeper", doing=doing, error=why)

    def _backoff(self, failures: int) -> int:
        nominal = min(JOIN_PAUSE_MOST, 250_000 * 2 ** min(failures, 6))
        return int(nominal * (0.5 + self._random.random()))
