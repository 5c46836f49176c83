"""One store under a random program: what it has answered so far, and what can be made of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onejob.commands.claims import LedgerClaim, Won
from onejob.commands.command import Command
from onejob.commands.schedules import Schedule, Ticked
from onejob.core.run import Claim, ClaimedRun, ReplicaId, RunId, Token
from onejob.testing.conformance.answers import DRAW_A_TOKEN, DRAW_TOKENS, Names
from onejob.testing.conformance.given import Run

#: Stands in while nothing has been claimed: no store ever draws these numbers.
NOBODY = Claim(RunId(2**62), Token(2**62), ReplicaId("replica-a"))
NO_HOLDER = LedgerClaim("period", "inbox", "charge", NOBODY.token, "replica-a")


@dataclass(slots=True)
class World:
    """One store and what it has answered so far."""

    run: Run
    names: Names = field(default_factory=Names)
    ids: list[RunId] = field(default_factory=list)
    claims: list[ClaimedRun] = field(default_factory=list)
    entries: list[tuple[str, str, Token]] = field(default_factory=list)
    holders: list[LedgerClaim] = field(default_factory=list)
    schedules: dict[str, Schedule] = field(default_factory=dict)
    asked: tuple[RunId, ...] = ()

    def ask(self, command: Command[Any]) -> Any:
        """Carry a command out, remember what can be used later, return the comparable answer."""
        answer = self.run(command)
        self._learn(command, answer)
        return self.names.answer(command, answer)

    def id(self, number: int) -> RunId:
        """Return one of the runs made so far."""
        return self.ids[number % len(self.ids)] if self.ids else NOBODY.id

    def claim(self, number: int) -> Claim:
        """Return one of the claims received so far, the latest ones more often."""
        return self.claimed(number).claim if self.claims else NOBODY

    def claimed(self, number: int) -> ClaimedRun:
        """Return the run that came with a claim."""
        recent = self.claims[-6:] if number % 3 else self.claims
        return recent[number % len(recent)]

    def entry(self, number: int) -> tuple[str, str, Token]:
        """Return one of the effect claims received so far."""
        if not self.entries:
            return ("inbox", "charge", NOBODY.token)
        return self.entries[number % len(self.entries)]

    def holder(self, number: int) -> LedgerClaim:
        """Return one of the claims outside runs received so far, the latest ones more often."""
        if not self.holders:
            return NO_HOLDER
        recent = self.holders[-4:] if number % 3 else self.holders
        return recent[number % len(recent)]

    def _learn(self, command: Command[Any], answer: Any) -> None:
        parameters = command.parameters
        match command.name:
            case "run_enqueue" | "run_enqueue_one" | "run_enqueue_keyed" | "run_enqueue_alike":
                self.ids += [made.id for made in sorted(answer, key=lambda made: made.place)]
            case "schedule_tick":
                ticks: Sequence[Ticked] = answer
                made = [one for one in ticks if one.answer in ("fired", "queued")]
                self.ids += [RunId(one.run_id) for one in made]
            case "run_cancels":
                self.asked = answer
            case "run_claim" | "run_claim_alone":
                self.claims += answer
            case "claim_take" if isinstance(answer, Won):
                self.holders.append(answer.claim)
            case "schedule_read" | "schedule_due":
                self.schedules |= {schedule.name: schedule for schedule in answer.schedules}
            case name if name in DRAW_TOKENS:
                scope = str(parameters["scope"])
                self.entries += [(scope, key, answer[key]) for key in sorted(answer)]
            case name if name in DRAW_A_TOKEN and answer:
                self.entries.append((str(parameters["scope"]), str(parameters["key"]), answer))
