"""The settler keeps done, locked and stale apart, and asks until the store has answered."""

from __future__ import annotations

from typing import Any

import pytest

from onejob.commands import ledger, runs
from onejob.commands.command import Command
from onejob.core.effect import EntryState
from onejob.core.run import Again, Claim, ClaimedRun, End, LeaveUnknown, Outcome, Park, Settlement
from onejob.core.time import DAY, SECOND
from onejob.core.watermark import full_probes
from onejob.runtime.settler import BATCH, Settler
from onejob.stores.memory import tables
from runtime.stage import Stage, Trouble

DONE = End(Outcome.SUCCEEDED, result="1")


class Desk:
    """A settler on a stage, with a replica that has claimed some runs."""

    def __init__(self, stage: Stage, runs_claimed: int = 1) -> None:
        self.stage = stage
        self.settled: list[Claim] = []
        member = stage.member(jobs=("report",))
        stage.enqueue("report", *(f"{place:04}" for place in range(runs_claimed)))
        self.claims = [
            run.claim
            for run in stage.store.run(
                runs.claim(
                    full_probes(["default"]), jobs=["report"], replica=member.id, limit=10_000
                )
            )
        ]
        self.settler = Settler(
            stage.wire,  # type: ignore[arg-type]  # the part of a store that loops use
            stage.settings(),
            clock=stage.clock,
            events=stage.events,
            settled=self.settled.append,
        )
        stage.begin(self.settler.serve())

    async def settle(self, settlement: Settlement = DONE) -> None:
        for claim in self.claims:
            self.settler.add(claim, settlement)
        await self.settler.flushed()

    def takeover(self) -> ClaimedRun:
        """Let another replica run what this one has claimed."""
        store = self.stage.store
        [claim] = self.claims
        store.run(runs.settle([(claim, Again(0, Outcome.FAILED))], keep=DAY))
        other = self.stage.member("other", jobs=("report",))
        [run] = store.run(
            runs.claim(full_probes(["default"]), jobs=["report"], replica=other.id, limit=1)
        )
        return run


def locking(stage: Stage, monkeypatch: pytest.MonkeyPatch, ids: set[int]) -> None:
    """Hold these rows as an open fenced transaction would: settle skips them."""
    held = tables.Tables.held

    def skipping(self: Any, id: int, token: int, replica: str) -> Any:
        return None if id in ids else held(self, id, token, replica)

    monkeypatch.setattr(tables.Tables, "held", skipping)


@pytest.mark.parametrize(
    ("settlement", "event", "state"),
    [
        (DONE, "run.ended", "ended"),
        (End(Outcome.FAILED, error="no"), "run.failed", "ended"),
        (Again(5 * SECOND, Outcome.FAILED, "no"), "run.retried", "scheduled"),
        (Park(), "run.parked", "parked"),
        (LeaveUnknown("who knows"), "run.unknown", "unknown"),
    ],
    ids=["ended", "failed", "retried", "parked", "unknown"],
)
def test_a_settlement_is_written_and_told(
    stage: Stage, settlement: Settlement, event: str, state: str
) -> None:
    async def scene() -> Desk:
        desk = Desk(stage)
        await desk.settle(settlement)
        return desk

    desk = stage.play(scene())

    assert desk.settled == desk.claims
    assert stage.names() == [event]
    assert stage.run(desk.claims[0].id).state == state
    assert stage.told[0].fields["token"] == desk.claims[0].token


def test_while_one_batch_is_on_its_way_the_next_one_gathers(stage: Stage) -> None:
    async def scene() -> Desk:
        stage.wire.plan("run_settle", Trouble(back=SECOND))
        desk = Desk(stage, 100)
        desk.settler.add(desk.claims[0], DONE)
        await stage.passes(0.1)
        await desk.settle()
        return desk

    desk = stage.play(scene())

    assert stage.wire.count("run_settle") == 2
    assert sorted(desk.settled, key=lambda claim: claim.id) == desk.claims


def test_a_batch_has_a_bound(stage: Stage) -> None:
    async def scene() -> Desk:
        desk = Desk(stage, BATCH + 1)
        await desk.settle()
        return desk

    desk = stage.play(scene())

    assert stage.wire.count("run_settle") == 2
    assert len(desk.settled) == BATCH + 1
    assert len(desk.settler) == 0


def test_a_stale_claim_is_reported_and_dropped(stage: Stage) -> None:
    """P2: somebody newer holds the run, and nothing of theirs is touched."""

    async def scene() -> tuple[Desk, ClaimedRun]:
        desk = Desk(stage)
        newer = desk.takeover()
        await desk.settle()
        return desk, newer

    desk, newer = stage.play(scene())

    run = stage.run(newer.id)
    assert (run.state, run.token, run.replica) == ("running", newer.token, "other")
    assert desk.settled == desk.claims
    assert stage.names() == ["run.stale"]


def test_a_locked_row_is_tried_again_and_does_not_hold_up_its_neighbours(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> tuple[Desk, list[Claim], float]:
        desk = Desk(stage, 3)
        locked = {int(desk.claims[1].id)}
        locking(stage, monkeypatch, locked)
        settling = stage.begin(desk.settle())
        await stage.passes(3)
        before = list(desk.settled)
        locked.clear()
        await settling
        return desk, before, stage.now

    desk, before, ended = stage.play(scene())

    assert before == [desk.claims[0], desk.claims[2]]
    assert set(desk.settled) == set(desk.claims)
    assert 3 <= ended < 3.1
    assert stage.names() == ["run.ended"] * 3
    # Bounded: a pause between two tries.
    assert stage.wire.count("run_settle") < 70


def test_a_lost_reply_is_found_to_be_done_and_is_told_once(stage: Stage) -> None:
    async def scene() -> Desk:
        stage.wire.plan("run_settle", Trouble(lost=True))
        desk = Desk(stage)
        await desk.settle()
        return desk

    desk = stage.play(scene())

    assert desk.settled == desk.claims
    assert stage.names("run") == ["run.ended"]
    assert len(stage.store.tables.history) == 1


def test_a_run_given_back_and_claimed_by_another_before_the_lost_reply_is_asked_about_is_stale(
    stage: Stage,
) -> None:
    """The retry was written; who holds the run now is somebody else's business."""

    async def scene() -> Desk:
        stage.wire.plan("run_settle", Trouble(lost=True))
        desk = Desk(stage)
        desk.settler.add(desk.claims[0], Again(0, Outcome.FAILED, "no"))
        await stage.passes(0.1)
        other = stage.member("other", jobs=("report",))
        [run] = stage.store.run(
            runs.claim(full_probes(["default"]), jobs=["report"], replica=other.id, limit=1)
        )
        assert run.attempt == 2
        await desk.settler.flushed()
        return desk

    stage.play(scene())

    assert stage.run(1).replica == "other"
    assert stage.names("run") == ["run.stale"]


def test_an_unreachable_store_is_asked_until_it_answers(stage: Stage) -> None:
    async def scene() -> float:
        desk = Desk(stage)
        stage.wire.down = True
        settling = stage.begin(desk.settle())
        await stage.passes(30)
        stage.wire.down = False
        await settling
        return stage.now

    assert 30 <= stage.play(scene()) < 31
    assert stage.names("run") == ["run.ended"]
    assert stage.wire.count("run_settle") < 200


def recorded(stage: Stage, claim: Claim, state: EntryState | None) -> None:
    """Record an effect of the run between the attempt's question and its settlement."""
    entry = ledger.NewEntry("report/0000", "mail", owner="me/1/1")
    token = stage.store.run(ledger.claim_in_run(claim, entry))
    assert token is not None
    if state is not None:
        record = ledger.record(
            "report/0000", "mail", token=token, state=state, result=None, keep=DAY
        )
        assert stage.store.run(record)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (EntryState.DONE, "scheduled"),
        (EntryState.FAILED, "scheduled"),
        (EntryState.UNKNOWN, "unknown"),
        (None, "unknown"),
    ],
    ids=["done", "failed", "unknown", "claimed"],
)
def test_an_unknown_run_looks_again_for_an_outcome_recorded_just_before(
    stage: Stage, outcome: EntryState | None, state: str
) -> None:
    """P5: recording frees a run that is unknown already; settled after it, nobody else would."""

    async def scene() -> Desk:
        desk = Desk(stage)
        recorded(stage, desk.claims[0], outcome)
        await desk.settle(LeaveUnknown("no reply", "report/0000", "mail"))
        return desk

    desk = stage.play(scene())

    assert stage.run(desk.claims[0].id).state == state


def test_a_settlement_that_fails_the_look_again_is_still_finished(stage: Stage) -> None:
    """The look is asked again with the batch, and the run does not stay unknown."""

    async def scene() -> Desk:
        desk = Desk(stage)
        recorded(stage, desk.claims[0], EntryState.DONE)
        stage.wire.plan("effect_read", Trouble(unsent=True))
        await desk.settle(LeaveUnknown("no reply", "report/0000", "mail"))
        return desk

    desk = stage.play(scene())

    assert desk.settled == desk.claims
    assert stage.run(desk.claims[0].id).state == "scheduled"


def refusing(stage: Stage, text: str) -> None:
    """Let the store's driver fail at whatever holds this text, as at one that it cannot encode."""

    def fail(command: Command[Any]) -> None:
        if text in str(command.parameters.get("batch")):
            raise ValueError("cannot be encoded")

    stage.wire.before = fail


def test_one_text_that_cannot_be_written_holds_up_no_other_run(stage: Stage) -> None:
    """F19: the others are settled as they ended, and that one in other words."""

    async def scene() -> Desk:
        desk = Desk(stage, 5)
        refusing(stage, "poison")
        desk.settler.add(desk.claims[2], Again(SECOND, Outcome.FAILED, "poison"))
        for place in (0, 1, 3, 4):
            desk.settler.add(desk.claims[place], DONE)
        await desk.settler.flushed()
        return desk

    desk = stage.play(scene())

    assert sorted(desk.settled, key=lambda claim: claim.id) == desk.claims
    states = [stage.run(claim.id).state for claim in desk.claims]
    assert states == ["ended", "ended", "scheduled", "ended", "ended"]
    assert "loop.error" in stage.names()


@pytest.mark.parametrize(
    ("settlement", "state"),
    [
        (End(Outcome.FAILED, error="poison"), "ended"),
        (End(Outcome.SUCCEEDED, result="poison"), "ended"),
        (LeaveUnknown("poison"), "unknown"),
    ],
)
def test_what_cannot_be_written_ends_as_it_ended_without_its_texts(
    stage: Stage, settlement: Settlement, state: str
) -> None:
    async def scene() -> Desk:
        desk = Desk(stage)
        refusing(stage, "poison")
        await desk.settle(settlement)
        return desk

    desk = stage.play(scene())

    [claim] = desk.claims
    run = stage.run(claim.id)
    assert run.state == state
    assert "could not be written down" in (run.error or "")


def test_a_store_that_goes_away_between_two_of_a_poisoned_batch_is_asked_again(
    stage: Stage,
) -> None:
    async def scene() -> Desk:
        desk = Desk(stage, 3)
        refusing(stage, "poison")
        # The batch, then the first one; the second one is cut off.
        stage.wire.plan("run_settle", Trouble(), Trouble(unsent=True))
        for place, error in enumerate(("a", "poison", "b")):
            desk.settler.add(desk.claims[place], End(Outcome.FAILED, error=error))
        await desk.settler.flushed()
        return desk

    desk = stage.play(scene())

    assert sorted(desk.settled, key=lambda claim: claim.id) == desk.claims
    assert [stage.run(claim.id).state for claim in desk.claims] == ["ended"] * 3
