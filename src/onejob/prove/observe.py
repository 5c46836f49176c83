"""Turn what the store carried out into facts of the history."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from onejob.commands import schedules
from onejob.commands.command import Command
from onejob.commands.runs import Made as MadeRun
from onejob.commands.runs import alike_key
from onejob.commands.schedules import Due
from onejob.core.run import Claim, ClaimedRun
from onejob.core.time import SECOND, Instant, read_instant
from onejob.prove import history as facts
from onejob.prove.history import History
from onejob.prove.virtual import StoreClock, VirtualLoop
from onejob.stores.protocol import Store

#: More claims than this that get nothing, in one second of one process, are a loop that spins.
SPIN_TIMES = 100


class Observer:
    """Writes a history. ``believes`` tells whether a replica trusts its lease at this moment."""

    def __init__(
        self,
        history: History,
        loop: VirtualLoop,
        store: Store,
        clock: StoreClock,
        *,
        believes: Callable[[str], bool],
    ) -> None:
        self._history, self._loop, self._store, self._clock = history, loop, store, clock
        self._believes = believes
        self._names: dict[str, str] = {}
        self._leases: dict[str, int] = {}
        self._joins: dict[str, int] = {}
        self._gone: set[str] = set()
        self._empty: dict[tuple[str, int], int] = {}
        self._on: Mapping[str, Callable[[str, Mapping[str, Any], Any, Any], None]] = {
            "replica_join": self._joined,
            "replica_leave": self._left,
            "replica_judge": self._judged,
            "run_enqueue": self._made,
            "run_enqueue_one": self._made,
            "run_enqueue_keyed": self._made_keyed,
            "run_enqueue_alike": self._made_alike,
            "run_claim": self._claimed,
            "run_claim_alone": self._claimed_alone,
            "run_settle": self._settled,
            "run_retry": self._freed,
            "run_wake": self._freed,
            "ledger_first_in_run": self._applied,
            "effect_claim_in_run": self._reserved,
            "effect_reclaim": self._reserved,
            "effect_record": self._recorded,
            "schedule_define": self._defined,
            "schedule_tick": self._ticked,
        }

    def before(self, command: Command[Any]) -> Any:
        """Read the revisions of the schedules that a tick is about to advance."""
        if command.name != "schedule_tick":
            return None
        return self._schedules(step["name"] for step in _batch(command.parameters))

    def after(self, process: str, command: Command[Any], answer: Any, seen: Any) -> None:
        """Write down what has happened."""
        write = self._on.get(command.name)
        if write is not None:
            write(process, command.parameters, answer, seen)

    @property
    def _at(self) -> int:
        return self._loop.micros

    def name(self, replica: str) -> str:
        """Return a replica's name in the history."""
        return self._names.get(replica, replica)

    def _joined(self, process: str, given: Mapping[str, Any], answer: bool, _: Any) -> None:
        if given["id"] not in self._names:
            self._joins[process] = self._joins.get(process, 0) + 1
            self._names[given["id"]] = f"{process}.{self._joins[process]}"
            self._leases[given["id"]] = given["lease"]

    def _left(self, _: str, given: Mapping[str, Any], answer: bool, __: Any) -> None:
        if answer:
            self._gone.add(given["id"])

    def _trusts(self, replica: str) -> bool:
        """Tell whether a replica goes by its lease: not one that has left of its own accord."""
        return replica not in self._gone and self._believes(replica)

    def _judged(self, process: str, _: Any, answer: tuple[str, ...], __: Any) -> None:
        for id in answer:
            self._history.add(
                facts.Judged(self._at, self.name(id), process, self._leases[id], self._trusts(id))
            )

    def _made_keyed(self, _: str, given: Mapping[str, Any], answer: Any, __: Any) -> None:
        self._made(_, {**given, "keyed": 1}, answer, __)

    def _made_alike(self, _: str, given: Mapping[str, Any], answer: Any, __: Any) -> None:
        keys = [alike_key(given["stem"], made.place) for made in answer]
        batch = json.dumps([{**given, "key": key} for key in keys])
        self._made(_, {"batch": batch, "now": given["now"]}, answer, __)

    def _made(self, _: str, given: Mapping[str, Any], answer: tuple[MadeRun, ...], __: Any) -> None:
        batch = _batch(given) if "batch" in given else [given]
        now = given["now"] or self._clock.now()
        for made in answer:
            new = batch[made.place]
            due = max(now, (new["at"] or now) + new["delay"])
            self._history.add(
                facts.Made(
                    self._at,
                    made.id,
                    new["kind"],
                    new["job"],
                    new["key"],
                    bool(new.get("keyed")),
                    due,
                    new["on_loss"],
                )
            )

    def _claimed(
        self, process: str, __: Any, answer: tuple[ClaimedRun, ...], ___: Any, alone: bool = False
    ) -> None:
        if not answer:
            second = (process, self._at // SECOND)
            self._empty[second] = self._empty.get(second, 0) + 1
            if self._empty[second] == SPIN_TIMES:
                self._history.add(facts.Spun(self._at, process, SPIN_TIMES))
        for run in answer:
            replica = self.name(run.replica)
            self._history.add(
                facts.Claimed(self._at, run.id, run.token, replica, run.attempt, alone)
            )

    def _claimed_alone(self, process: str, given: Any, answer: Any, seen: Any) -> None:
        self._claimed(process, given, answer, seen, alone=True)

    def _settled(
        self, process: str, given: Mapping[str, Any], answer: tuple[Claim, ...], _: Any
    ) -> None:
        done = set(answer)
        for row in _batch(given):
            claim = Claim(row["id"], row["token"], row["replica"])
            ids = (self._at, claim.id, claim.token, self.name(claim.replica))
            if claim not in done:
                self._history.add(facts.Refused(*ids, "settle"))
                continue
            believed = self._trusts(claim.replica)
            self._history.add(facts.Settled(*ids, process, row["to"], row["outcome"], believed))

    def _freed(self, _: str, given: Mapping[str, Any], answer: bool, __: Any) -> None:
        if answer:
            self._history.add(facts.Freed(self._at, given["id"]))

    def _applied(self, _: str, given: Mapping[str, Any], answer: bool, __: Any) -> None:
        ids = (self._at, given["id"], given["token"], self.name(given["replica"]))
        if answer:
            self._history.add(facts.Applied(*ids, given["key"]))
        else:
            self._history.add(facts.Refused(*ids, "apply"))

    def _reserved(self, _: str, given: Mapping[str, Any], answer: int | None, __: Any) -> None:
        if answer is not None:
            ids = (given["scope"], given["key"], given["id"], given["token"], answer)
            self._history.add(facts.Reserved(self._at, *ids))

    def _recorded(self, _: str, given: Mapping[str, Any], answer: bool, __: Any) -> None:
        if answer:
            self._history.add(
                facts.Recorded(
                    self._at, given["scope"], given["key"], given["token"], given["state"]
                )
            )

    def _defined(self, _: str, given: Mapping[str, Any], answer: bool, __: Any) -> None:
        if answer:
            if given["missed"]:
                self._missed(given["name"], given["missed"])
            interval = int(json.loads(given["timing"])["interval"])
            self._history.add(
                facts.Defined(
                    self._at, given["name"], given["next_fire"], interval, self._clock.now()
                )
            )

    def _ticked(
        self, _: str, given: Mapping[str, Any], answer: tuple[Any, ...], before: dict[str, int]
    ) -> None:
        steps = _batch(given)
        after = self._schedules(step["name"] for step in steps)
        for ticked in answer:
            self._history.add(facts.Ticked(self._at, ticked.name, ticked.fire_time, ticked.answer))
            if ticked.answer in ("fired", "queued"):
                fire = next(
                    fire
                    for step in steps
                    if step["name"] == ticked.name
                    for fire in step["fires"]
                    if fire["fire_time"] == ticked.fire_time
                )
                self._history.add(
                    facts.Made(
                        self._at,
                        ticked.run_id,
                        "schedule",
                        fire["job"],
                        fire["key"],
                        True,
                        self._clock.now(),
                        fire["on_loss"],
                        ticked.name,
                        ticked.fire_time,
                    )
                )
        for step in steps:
            name = step["name"]
            advanced = before.get(name) == step["revision"] != after.get(name)
            if advanced and step["missed"]:
                self._missed(name, step["missed"])

    def _missed(self, schedule: str, text: str) -> None:
        missed = json.loads(text)
        listed = tuple(int(read_instant(each["at"], "missed")) for each in missed["newest"])
        self._history.add(facts.Missed(self._at, schedule, missed["count"], listed))

    def _schedules(self, names: Any) -> dict[str, int]:
        due: Due = self._store.run(schedules.read(tuple(names), now=Instant(0)))
        return {schedule.name: schedule.revision for schedule in due.schedules}


def _batch(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    batch: list[dict[str, Any]] = json.loads(given["batch"])
    return batch
