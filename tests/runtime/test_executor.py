"""Each end of a handler becomes exactly one settlement, or none when the lease is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from onejob.commands import runs
from onejob.core.retry import MAX_INTERRUPTIONS, Cancel, Retry, RetryLater
from onejob.core.run import (
    ERROR_CHARACTERS,
    Again,
    ClaimedRun,
    End,
    LeaveUnknown,
    Outcome,
    Park,
    RunId,
    Settlement,
    Token,
)
from onejob.core.time import MINUTE, SECOND, Span
from onejob.core.watermark import full_probes
from onejob.errors import EffectUnknown, LeaseLost, OutcomeUnknown, UsageError
from onejob.runtime.attempt import Attempt
from onejob.runtime.executor import Executor
from onejob.runtime.membership import Membership
from runtime.stage import Job, Stage, failing


class Bench:
    """An executor on a stage, and what it hands on."""

    def __init__(self, stage: Stage, *jobs: Job, slots: int = 2) -> None:
        self.stage = stage
        self.finished: list[tuple[RunId, Settlement]] = []
        self.freed = 0
        self.jobs = {job.name: job for job in jobs}
        self.executor = Executor(
            self.jobs,  # type: ignore[arg-type]  # a Job here does what an Executable owes
            slots=slots,
            clock=stage.clock,
            random=stage.random,
            events=stage.events,
            finished=self._finished,
            freed=self._freed,
        )
        self.member: Membership = stage.member(jobs=tuple(self.jobs))

    def _finished(self, attempt: Attempt, settlement: Settlement) -> None:
        self.finished.append((attempt.run.id, settlement))

    def _freed(self) -> None:
        self.freed += 1

    def claim(self, *keys: str, job: str = "report") -> tuple[ClaimedRun, ...]:
        self.stage.enqueue(job, *keys)
        jobs = [*self.jobs, job]
        return self.stage.store.run(
            runs.claim(full_probes(["default"]), jobs=jobs, replica=self.member.id, limit=100)
        )

    def take(self, *keys: str, job: str = "report") -> tuple[ClaimedRun, ...]:
        claimed = self.claim(*keys, job=job)
        for run in claimed:
            self.executor.take(run, self.member)
        return claimed

    @property
    def only(self) -> Settlement:
        [(_, settlement)] = self.finished
        return settlement


async def returning(attempt: Attempt) -> str:
    return "done"


async def for_ever(attempt: Attempt) -> None:
    await asyncio.get_running_loop().create_future()


def unserialisable(value: object) -> str:
    raise UsageError("report: result.when is a socket, which is no JSON")


def settlement_of(stage: Stage, job: Job) -> Settlement:
    """Let one run of a job end by itself."""

    async def scene() -> Bench:
        bench = Bench(stage, job)
        bench.take("one")
        await stage.passes(60)
        assert bench.executor.held == 0
        return bench

    return stage.play(scene()).only


IN_A_MINUTE = datetime(2026, 3, 29, 1, 1, tzinfo=UTC)


def report(handler: Callable[[Attempt], Any], **options: Any) -> Job:
    return Job("report", handler, **options)


@pytest.mark.parametrize(
    ("job", "settlement"),
    [
        (
            report(returning, encode=json.dumps),
            End(Outcome.SUCCEEDED, result='"done"'),
        ),
        (
            report(failing(ValueError("no"))),
            Again(10 * SECOND, Outcome.FAILED, "ValueError: no"),
        ),
        (report(failing(ValueError())), Again(10 * SECOND, Outcome.FAILED, "ValueError")),
        (
            report(failing(ValueError("no")), retry=Retry(attempts=1)),
            End(Outcome.FAILED, error="ValueError: no"),
        ),
        (
            report(failing(KeyError("k")), retry=Retry(give_up_on=LookupError)),
            End(Outcome.FAILED, error="KeyError: 'k'"),
        ),
        (
            report(failing(KeyError("k")), retry=Retry(on=ConnectionError)),
            End(Outcome.FAILED, error="KeyError: 'k'"),
        ),
        (
            report(failing(RetryLater("7m"))),
            Again(7 * MINUTE, Outcome.FAILED, "RetryLater: 7m"),
        ),
        (
            report(failing(RetryLater("7m")), retry=Retry(attempts=1)),
            End(Outcome.FAILED, error="RetryLater: 7m"),
        ),
        (
            report(failing(Cancel("withdrawn"))),
            End(Outcome.CANCELLED, error="Cancel: withdrawn"),
        ),
        (
            report(failing(SystemExit(3))),
            Again(10 * SECOND, Outcome.FAILED, "SystemExit: 3"),
        ),
        (
            report(failing(EffectUnknown("report/one", "mail", provider_key="k", why="x"))),
            LeaveUnknown("", "report/one", "mail"),
        ),
        (
            report(failing(OutcomeUnknown("run_fence", "here", "reset"))),
            Again(10 * SECOND, Outcome.FAILED, ""),
        ),
        (
            report(for_ever, timeout=Span(5 * SECOND)),
            Again(10 * SECOND, Outcome.TIMED_OUT, "TimeoutError"),
        ),
        (
            report(for_ever, timeout=Span(5 * SECOND), retry=Retry(attempts=1)),
            End(Outcome.TIMED_OUT, error="TimeoutError"),
        ),
        (
            report(failing(TimeoutError("the server's")), timeout=Span(5 * SECOND)),
            Again(10 * SECOND, Outcome.FAILED, "TimeoutError: the server's"),
        ),
        (
            report(returning, encode=unserialisable),
            End(
                Outcome.FAILED,
                error="UsageError: report: result.when is a socket, which is no JSON",
            ),
        ),
    ],
    ids=[
        "returns",
        "raises",
        "raises without a text",
        "raises at its last attempt",
        "raises what it gives up on",
        "raises what it is not tried again for",
        "asks for later",
        "asks for later at its last attempt",
        "cancels itself",
        "calls sys.exit",
        "leaves an effect unknown",
        "does not know whether it committed",
        "outlasts its timeout",
        "outlasts its timeout at its last attempt",
        "raises a TimeoutError of its own",
        "returns what is no JSON",
    ],
)
def test_each_end_of_a_handler_is_one_settlement(
    stage: Stage, job: Job, settlement: Settlement
) -> None:
    """B07: whatever a handler does, its run does not stay running for ever."""
    found = settlement_of(stage, job)

    match settlement, found:
        case Again(error="") as wanted, Again():
            assert (found.delay, found.why) == (wanted.delay, wanted.why)
        case LeaveUnknown() as wanted, LeaveUnknown():
            assert (found.scope, found.key) == (wanted.scope, wanted.key)
            assert "nobody knows whether effect 'mail'" in found.reason
        case _:
            assert found == settlement


def test_a_wait_until_an_instant_is_counted_from_the_stores_clock(stage: Stage) -> None:
    """The stage opens at 01:00:00 by the store's clock, whatever the host's own says."""
    found = settlement_of(stage, Job("report", failing(RetryLater(IN_A_MINUTE))))

    assert isinstance(found, Again)
    assert found.delay == 60 * SECOND


def test_a_very_long_error_is_cut(stage: Stage) -> None:
    found = settlement_of(stage, Job("report", failing(ValueError("x" * 10**6))))

    assert isinstance(found, Again)
    assert len(found.error or "") == ERROR_CHARACTERS


def test_a_result_that_cannot_be_kept_is_never_worth_a_second_attempt(stage: Stage) -> None:
    """Its effects have happened: trying again would repeat them for the sake of a result."""
    found = settlement_of(
        stage, Job("report", returning, retry=Retry(attempts=9), encode=unserialisable)
    )

    assert isinstance(found, End)


def test_a_run_of_an_unknown_job_is_parked(stage: Stage) -> None:
    """F14."""

    async def scene() -> Bench:
        bench = Bench(stage, Job("report", returning))
        bench.take("one", job="other")
        return bench

    assert stage.play(scene()).only == Park()


def test_a_cancellation_that_nobody_here_asked_for_is_an_ordinary_failure(stage: Stage) -> None:
    """A handler that awaits a task of its own which was cancelled raises CancelledError.

    Dropped without a settlement, its run would be found again and executed for ever, and no attempt
    counted.
    """

    async def handler(attempt: Attempt) -> None:
        task = asyncio.ensure_future(for_ever(attempt))
        task.cancel()
        await task

    found = settlement_of(stage, report(handler))

    assert found == Again(10 * SECOND, Outcome.FAILED, "CancelledError")


# A lease that is lost


def lose(bench: Bench, why: str = "lost") -> None:
    bench.member.lost = why
    bench.executor.lose(bench.member)


def test_a_lost_lease_cancels_handlers_and_settles_nothing(stage: Stage) -> None:
    """P2: the store has, or will have, another holder: nothing here may speak for the run."""
    seen: list[str] = []

    async def handler(attempt: Attempt) -> None:
        try:
            await for_ever(attempt)
        except asyncio.CancelledError:
            seen.append(attempt.lost)
            raise

    async def scene() -> Bench:
        bench = Bench(stage, Job("report", handler))
        bench.take("one", "two", "three")
        await stage.passes(1)
        lose(bench, "declared dead")
        await stage.passes(1)
        return bench

    bench = stage.play(scene())

    assert seen == ["declared dead"] * 2
    assert bench.finished == []
    assert bench.executor.attempts == {}
    assert bench.executor.held == 0
    assert stage.names() == ["run.lost"] * 3


def test_a_handler_that_learns_of_its_lost_lease_settles_nothing(stage: Stage) -> None:
    async def handler(attempt: Attempt) -> None:
        await asyncio.sleep(13)
        attempt.check()

    async def scene() -> Bench:
        bench = Bench(stage, Job("report", handler))
        bench.take("one")
        await stage.passes(20)
        return bench

    bench = stage.play(scene())

    assert bench.finished == []
    assert bench.executor.attempts == {}


def test_a_lost_lease_of_something_else_is_an_ordinary_failure(stage: Stage) -> None:
    """As from a transaction that was open too long: this attempt is still the valid one."""
    error = LeaseLost("transaction", token=0, why="open for more than 4 s")

    found = settlement_of(stage, Job("report", failing(error)))

    assert isinstance(found, Again)
    assert found.why is Outcome.FAILED


def test_a_run_claimed_under_a_lease_that_has_ended_is_not_started(stage: Stage) -> None:
    """B11: the deadline is checked again just before the handler starts."""
    started: list[str] = []

    async def handler(attempt: Attempt) -> None:
        started.append(attempt.run.key)
        await asyncio.sleep(12.5)

    async def scene() -> Bench:
        bench = Bench(stage, Job("report", handler), slots=1)
        bench.take("one", "two", "three")
        await stage.passes(60)
        return bench

    bench = stage.play(scene())

    assert started == ["one"]
    assert bench.executor.held == 0
    assert set(bench.executor.attempts) <= {RunId(1)}


def test_what_is_lost_leaves_the_runs_of_a_newer_lease_alone(stage: Stage) -> None:
    async def scene() -> Bench:
        bench = Bench(stage, Job("report", for_ever))
        bench.take("one")
        old, bench.member = bench.member, stage.member("again", jobs=("report",))
        bench.take("two")
        await stage.passes(1)
        old.lost = "lost"
        bench.executor.lose(old)
        await stage.passes(1)
        return bench

    bench = stage.play(scene())

    assert list(bench.executor.attempts) == [2]
    assert bench.executor.held == 1


def test_a_settled_claim_does_not_forget_a_newer_attempt_of_the_same_run(stage: Stage) -> None:
    async def scene() -> Bench:
        bench = Bench(stage, Job("report", for_ever))
        [run] = bench.claim("one")
        newer = run._replace(token=Token(run.token + 1), attempt=2)
        bench.executor.take(newer, bench.member)
        bench.executor.settled(run.claim)
        return bench

    assert list(stage.play(scene()).executor.attempts) == [1]


# Slots


def test_no_more_run_at_once_than_there_are_slots(stage: Stage) -> None:
    running = [0, 0]

    async def handler(attempt: Attempt) -> None:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(1)
        running[0] -= 1

    async def scene() -> Bench:
        bench = Bench(stage, Job("report", handler), slots=3)
        bench.take(*(str(place) for place in range(8)))
        assert bench.executor.held == 8
        await stage.passes(10)
        return bench

    bench = stage.play(scene())

    assert running == [0, 3]
    assert len(bench.finished) == 8
    assert bench.freed == 8


# Draining


def drained(stage: Stage, handler: Callable[[Attempt], Any], grace: int) -> tuple[Bench, bool]:
    async def scene() -> tuple[Bench, bool]:
        bench = Bench(stage, Job("report", handler), slots=1)
        bench.take("one", "two")
        await stage.passes(1)
        return bench, await bench.executor.drain(grace)

    return stage.play(scene())


INTERRUPTED = Again(0, Outcome.INTERRUPTED)


def test_a_drain_gives_back_at_once_what_has_not_started(stage: Stage) -> None:
    """B11, B15."""
    bench, left = drained(stage, for_ever, 10 * SECOND)

    assert bench.finished[0] == (2, INTERRUPTED)
    assert left


def test_a_drain_lets_handlers_finish_for_the_grace_period(stage: Stage) -> None:
    """F12."""

    async def three_seconds(attempt: Attempt) -> None:
        await asyncio.sleep(3)

    bench, left = drained(stage, three_seconds, 10 * SECOND)

    assert bench.finished[1] == (1, End(Outcome.SUCCEEDED))
    assert not left
    assert stage.now == 3.0


def test_a_drain_interrupts_after_the_grace_period_without_spending_an_attempt(
    stage: Stage,
) -> None:
    """F12, B15."""
    bench, left = drained(stage, for_ever, 10 * SECOND)

    assert bench.finished[1] == (1, INTERRUPTED)
    assert left
    assert stage.now == 11.0


def test_a_handler_that_raises_while_it_is_interrupted_fails_as_it_would_otherwise(
    stage: Stage,
) -> None:
    async def handler(attempt: Attempt) -> None:
        try:
            await for_ever(attempt)
        except asyncio.CancelledError as cancelled:
            raise ValueError("no end") from cancelled

    bench, _ = drained(stage, handler, SECOND)

    assert bench.finished[1] == (
        1,
        Again(10 * SECOND, Outcome.FAILED, "ValueError: no end"),
    )


def test_a_handler_that_will_not_be_cancelled_does_not_hold_the_drain_up_for_ever(
    stage: Stage,
) -> None:
    async def handler(attempt: Attempt) -> None:
        while True:
            try:
                await for_ever(attempt)
            except asyncio.CancelledError:
                pass

    _, left = drained(stage, handler, SECOND)

    assert left
    assert stage.now < 10


def test_interruptions_have_a_cap_of_their_own(stage: Stage) -> None:
    """B15: a run that is given back for ever must end some day."""

    async def scene() -> Bench:
        bench = Bench(stage, Job("report", for_ever))
        [run] = bench.claim("one")
        bench.executor.take(run._replace(interrupted=MAX_INTERRUPTIONS - 1), bench.member)
        await stage.passes(1)
        await bench.executor.drain(0)
        return bench

    found = stage.play(scene()).only

    assert isinstance(found, End)
    assert found.outcome is Outcome.INTERRUPTED
    assert str(MAX_INTERRUPTIONS) in (found.error or "")


def test_a_drain_after_a_lost_lease_gives_nothing_back(stage: Stage) -> None:
    async def handler(attempt: Attempt) -> None:
        try:
            await for_ever(attempt)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            raise

    async def scene() -> Bench:
        bench = Bench(stage, Job("report", handler))
        bench.take("one")
        await stage.passes(1)
        lose(bench)
        await bench.executor.drain(0)
        return bench

    assert stage.play(scene()).finished == []
