"""Declare: store what this code says of its schedules, unless newer code has said otherwise.

Read what is stored, decide by ``core.adoption``, write with a compare-and-set. What is ours to tick
follows from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from onejob.commands import missed, schedules
from onejob.commands.schedules import Schedule
from onejob.core.adoption import Create, Declaration, Leave, Replace, Same, Stored, adopt
from onejob.core.schedule import first_fire
from onejob.core.time import Instant
from onejob.runtime.events import Events
from onejob.runtime.lane import KeeperHost
from onejob.runtime.settings import Declared, Settings
from onejob.stores.protocol import AsyncStore


@dataclass(frozen=True, slots=True)
class Ours:
    """What is ours to tick. ``next_fires`` by the store's clock, which showed ``now``.

    ``again``: somebody was faster with one of them; declare again at once.
    """

    names: tuple[str, ...]
    next_fires: tuple[int, ...]
    now: int
    again: bool


class Declarer:
    """Declares the schedules of one replica's code."""

    def __init__(
        self,
        host: KeeperHost | AsyncStore,
        declared: Sequence[Declared],
        settings: Settings,
        events: Events,
    ) -> None:
        self._host, self._settings, self._events = host, settings, events
        self.declared = {schedule.name: schedule for schedule in declared}

    async def declare(self) -> Ours:
        """Store what is new here, and learn which definitions are the present ones."""
        names = tuple(self.declared)
        stored = await self._host.run(schedules.read(names))
        live: dict[str, set[str]] = {}
        for name, definition in await self._host.run(schedules.live_definitions(names)):
            live.setdefault(name, set()).add(definition)
        known = {schedule.name: schedule for schedule in stored.schedules}
        ours: dict[str, int] = {}
        again = False
        for name, declared in self.declared.items():
            schedule = known.get(name)
            # A definition that only this replica declares does not keep itself alive.
            others = frozenset(live.get(name, set()))
            match self._decide(declared, schedule, others):
                case Same():
                    ours[name] = schedule.next_fire if schedule else 0
                case Create():
                    done, ours[name] = await self._define(declared, None, (), stored.now)
                    again |= not done
                case Replace(superseded):
                    done, ours[name] = await self._define(
                        declared, schedule, superseded, stored.now
                    )
                    again |= not done
                case Leave(reason):
                    self._events.emit("schedule.left", schedule=name, reason=reason)
        return Ours(tuple(ours), tuple(ours.values()), stored.now, again)

    def _decide(
        self, declared: Declared, schedule: Schedule | None, others: frozenset[str]
    ) -> Create | Same | Replace | Leave:
        if schedule is not None and schedule.dynamic:
            return Leave("it was put as data under this name: delete it, or rename one of the two")
        return adopt(
            declared=Declaration(declared.definition, self._settings.version or None),
            stored=_stored(schedule),
            live_definitions=others,
        )

    async def _define(
        self, declared: Declared, old: Schedule | None, superseded: tuple[str, ...], now: int
    ) -> tuple[bool, int]:
        """Store a definition; a new timing starts anew from now and never fills in the past.

        Where the timing is the old one (another argument, another policy), what is due stays due:
        the next tick decides by the catch-up rule. Returns whether it was stored, and what is next.
        """
        kept = old is not None and (old.timing, old.job) == (declared.timing_text, declared.job)
        try:
            next_fire, broken = first_fire(declared.timing, Instant(now)), ""
            if old is not None and kept and not old.broken:
                next_fire = Instant(old.next_fire) if old.next_fire else None
        except Exception as error:  # noqa: BLE001 - told in the store and the log
            next_fire, broken = None, f"{type(error).__name__}: {error}"
        dropped = "" if kept or old is None else missed.of_redefinition(old, now)
        revision = old.revision if old else 0
        defined = await self._host.run(
            schedules.define(
                schedules.NewSchedule(
                    name=declared.name,
                    job=declared.job,
                    timing=declared.timing_text,
                    policy=declared.policy_text,
                    definition=declared.definition,
                    version=self._settings.version,
                    superseded=json.dumps(list(superseded)),
                    next_fire=next_fire or 0,
                    missed=dropped,
                    missed_count=int(bool(dropped)),
                    args=declared.args,
                    queue=declared.queue,
                    priority=declared.priority,
                    on_loss=declared.on_loss,
                ),
                revision=revision,
            )
        )
        if defined and broken:
            await self.mark_broken(declared.name, revision + 1, broken)
        return defined, next_fire or 0

    async def mark_broken(self, name: str, revision: int, why: str) -> None:
        """Stop this one schedule, visibly; the others go on."""
        await self._host.run(schedules.mark_broken(name, revision=revision, why=why))
        self._events.emit("schedule.broken", schedule=name, why=why)


def _stored(schedule: Schedule | None) -> Stored | None:
    if schedule is None:
        return None
    superseded = tuple(json.loads(schedule.superseded))
    return Stored(schedule.definition, schedule.version or None, superseded)
