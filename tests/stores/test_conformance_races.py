"""Many threads at once on each store: what two careful sessions can't show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import TypeVar

import pytest

from onejob.commands import claims, ledger, replicas, runs, schedules, views
from onejob.commands.runs import NewRun
from onejob.commands.schedules import Step, Ticked
from onejob.core.run import Again, Claim, ClaimedRun, Kind, Outcome, Settlement
from onejob.stores.memory import MemoryStore
from onejob.stores.protocol import Store
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    claim,
    claim_alone,
    defined,
    joined,
    settle,
    step,
    stored,
)

T = TypeVar("T")
THREADS = 8


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def run(request: pytest.FixtureRequest) -> Run:
    if request.param == "memory":
        return MemoryStore(lambda: NOW).run
    store: Store = request.getfixturevalue(f"{request.param}_store")
    return store.run


def test_every_run_is_claimed_by_exactly_one_of_many(run: Run) -> None:
    """C29, C30: and nobody sees "database is locked"."""
    run(runs.enqueue([NewRun("mail", f"k{n}", "{}") for n in range(300)], now=NOW))

    def work(n: int) -> list[ClaimedRun]:
        replica = joined(run, f"r{n}")
        mine: list[ClaimedRun] = []
        while batch := claim(run, replica, limit=7):
            mine += batch
        return mine

    claimed = [one for taken in together(work) for one in taken]

    assert len(claimed) == len({one.id for one in claimed}) == 300
    assert len({one.token for one in claimed}) == 300


def test_one_of_many_who_ask_with_the_same_key_makes_the_run(run: Run) -> None:
    """E22, E06: the others are told that it is known, without an error."""

    def ask(n: int, *, both: list[NewRun]) -> int:
        # In opposite orders: taken as they come, the keys would deadlock.
        return len(run(runs.enqueue(both if n % 2 else both[::-1], now=NOW)))

    for round in range(10):
        new = NewRun("mail", f"k{round}", "{}", keyed=True)
        both = [new, NewRun("mail", "all", "{}", keyed=True)]

        made = together(partial(ask, both=both))

        assert sum(made) == (2 if round == 0 else 1)
        assert run(runs.by_key(Kind.RUN, "mail", new.key)) is not None


def test_one_of_many_who_tick_gets_through(run: Run) -> None:
    """A15, A17, F15: nothing doubled, nothing lost, no deadlock."""
    names = ["a", "b", "c"]
    for name in names:
        defined(run, name)

    def tick(n: int, *, steps: list[Step], at: int) -> tuple[Ticked, ...]:
        given = steps if n % 2 else steps[::-1]
        return run(schedules.tick(given, replica=f"r{n}", now=at))

    for at in range(NOW, NOW + 10):
        steps = [step(stored(run, name), at) for name in names]

        ticked = together(partial(tick, steps=steps, at=at))

        # A row that others hold is skipped, so a round may leave some to the next look.
        left = tick(0, steps=steps, at=at)
        fired = Counter(one.name for answer in (*ticked, left) for one in answer)
        assert fired == dict.fromkeys(names, 1)


def test_one_of_many_wins_each_claim_and_whatever_becomes_of_it_tokens_rise(run: Run) -> None:
    """A01, C09: claimed, given back, abandoned and taken over, by all at once and ten times."""

    def ask(n: int, *, key: str, at: int) -> claims.Taken:
        owner = f"{n}-{at}"
        asked = claims.take("period", "mail", key, owner=owner, lease=10, keep=KEEP, now=at)
        return run(asked)

    last = 0
    for round in range(10):
        at = NOW + 100 * round  # the lease of the round before has ended

        answers = together(partial(ask, key="k", at=at))

        [won] = [answer for answer in answers if isinstance(answer, claims.Won)]
        lost = [answer for answer in answers if isinstance(answer, claims.Busy)]
        assert len(lost) == THREADS - 1
        assert {one.owner for one in lost} == {won.claim.owner}
        assert won.claim.token > last
        last = won.claim.token
        if round % 2:
            assert run(claims.release(won.claim, keep=KEEP, now=at))


def test_claims_given_back_at_once_are_had_by_one_after_another(run: Run) -> None:
    """C01, C09: a number that was drawn before a wait does not come after a later one."""
    order: list[int] = []

    def work(n: int) -> None:
        for turn in range(12):
            asked = claims.take(
                "period", "mail", "k", owner=f"{n}-{turn}", lease=KEEP, keep=KEEP, now=NOW
            )
            if isinstance(taken := run(asked), claims.Won):
                order.append(int(taken.claim.token))
                assert run(claims.release(taken.claim, keep=KEEP, now=NOW))

    together(work)

    assert len(order) >= 12
    assert order == sorted(set(order))


def test_one_of_many_is_first(run: Run) -> None:
    """E22, E23"""

    def ask(_: int, *, key: str) -> bool:
        return run(ledger.first("inbox", key, owner="o", keep=KEEP, now=NOW))

    for round in range(10):
        answers = together(partial(ask, key=f"m{round}"))

        assert sorted(answers) == [False] * (THREADS - 1) + [True]


def test_one_of_many_sweepers_gives_a_run_back(run: Run) -> None:
    """B17: one death is counted once."""
    run(runs.enqueue([NewRun("mail", f"k{n}", "{}") for n in range(50)], now=NOW))
    dead = joined(run, "dead")
    taken = claim(run, dead)
    assert run(replicas.leave(dead, now=NOW))

    def sweep(_: int) -> int:
        lost = run(replicas.lost(limit=100))
        batch = [(one.claim, Again(0, Outcome.ABANDONED)) for one in lost]
        return len(run(runs.settle(batch, keep=KEEP, now=NOW)))

    first, second = sum(together(sweep)), sweep(0)

    assert first + second == len(taken) == 50
    assert {view.deaths for view in run(views.runs(limit=100))} == {1}


def test_workers_sweepers_and_purges_get_in_nobodys_way(run: Run) -> None:
    """F15, F19: every run ends once, whoever else is at work, and no deadlock reaches anybody."""
    run(runs.enqueue([NewRun("mail", f"k{n}", "{}", keyed=True) for n in range(200)], now=NOW))

    def work(n: int) -> int:
        replica, ended = joined(run, f"r{n}"), 0
        while batch := claim(run, replica, limit=5) or claim_alone(run, replica):
            for one in batch:
                dies = one.attempt == 1 and one.id % 7 == 0
                settle_surely(run, one.claim, Again(0, Outcome.ABANDONED) if dies else DONE)
                ended += not dies
        return ended

    def maintain(n: int) -> int:
        for _ in range(10):
            run(replicas.judge(now=NOW))
            run(replicas.lost(limit=10))
            run(runs.park_unknown(now=NOW))
            run(runs.unpark(["mail"], now=NOW))
            run(runs.purge(limit=10, now=NOW))
            run(replicas.forget(before=NOW, limit=10))
        return 0

    ended = together(lambda n: work(n) if n < THREADS - 2 else maintain(n))
    # Whoever came last may have left while another was still giving runs back.
    total = sum(ended) + work(THREADS)

    assert total == 200
    assert {view.state for view in run(views.runs(limit=300))} == {"ended"}


def settle_surely(run: Run, claim: Claim, settlement: Settlement) -> None:
    """Settle a claim that holds, as a worker does.

    A row that somebody has locked is skipped, be it only a claim that looked at it a moment too
    late. So a claim that is absent from the answer is asked about, and settled again if it holds.
    """
    for _ in range(1_000):
        if settle(run, claim, settlement):
            return
        standing = run(runs.standings([claim.id]))[claim.id]
        assert (standing.token, standing.replica) == (claim.token, claim.replica)
    raise AssertionError(f"{claim} stays locked")


def together(work: Callable[[int], T]) -> list[T]:
    """Let many threads begin at the same moment; return what each came back with."""
    start = Barrier(THREADS)

    def begin(n: int) -> T:
        start.wait(timeout=10)
        return work(n)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(begin, range(THREADS)))
