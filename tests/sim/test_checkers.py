"""Each checker against a history that is right, and against mutants of it that it must catch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onejob.prove import checkers
from onejob.prove.history import (
    Applied,
    Begun,
    Calm,
    Claimed,
    Defined,
    Down,
    EffectStood,
    Fact,
    Freed,
    History,
    Judged,
    Landed,
    Made,
    Missed,
    Recorded,
    Reserved,
    ScheduleStood,
    Settled,
    Stepped,
    Stood,
    Ticked,
)
from onejob.prove.verdict import Standing, judged

S = 1_000_000

#: Run 1 is abandoned by a.1 and ended by b.1; run 2 pays; run 3 is made by a schedule.
RIGHT: tuple[Fact, ...] = (
    Defined(0, "nightly", 2 * S, 2 * S, 0),
    Made(1, 1, "run", "work", "one", True, 1),
    Claimed(2, 1, 10, "a.1", 1, False),
    Applied(3, 1, 10, "a.1", "one"),
    Made(4, 2, "run", "pay", "two", True, 4),
    Claimed(5, 2, 11, "b.1", 1, False),
    Begun(5, 2, 11),
    Reserved(5, "pay/two", "pay", 2, 11, 12),
    Landed(6, "pay/two", "pay", "key", False),
    Recorded(7, "pay/two", "pay", 12, "done"),
    Settled(8, 2, 11, "b.1", "b", "ended", "succeeded", True),
    Judged(9, "a.1", "b", 4 * S, False),
    Settled(10, 1, 10, "a.1", "b", "scheduled", "abandoned", False),
    Claimed(11, 1, 13, "b.1", 2, True),
    Settled(12, 1, 13, "b.1", "b", "ended", "succeeded", True),
    Ticked(2 * S, "nightly", 2 * S, "fired"),
    Made(2 * S, 3, "schedule", "work", "nightly@2", True, 2 * S, "retry", "nightly", 2 * S),
    Ticked(4 * S, "nightly", 4 * S, "skipped"),
    Missed(9 * S, "nightly", 2, (6 * S, 8 * S)),
    Calm(10 * S, 10 * S, 5 * S),
    Stood(20 * S, 1, "work", "ended", 1, "succeeded", True),
    Stood(20 * S, 2, "pay", "ended", 4, "succeeded", True),
    Stood(20 * S, 3, "work", "ended", 2 * S, "succeeded", True),
    EffectStood(20 * S, "pay/two", "pay", 2, "done"),
    ScheduleStood(20 * S, "nightly", 8 * S, 10 * S, 1, 10 * S),
)

Change = Callable[[list[Fact]], None]


def test_a_history_in_which_all_is_right_is_valid() -> None:
    assert {v.standing for v in checkers.check(History(list(RIGHT)))} == {Standing.VALID}


def drop(fact: Fact) -> Change:
    return lambda facts: facts.remove(fact)


def after(fact: Fact, new: Fact) -> Change:
    return lambda facts: facts.insert(facts.index(fact) + 1, new)


def instead(fact: Fact, new: Fact) -> Change:
    def change(facts: list[Fact]) -> None:
        facts[facts.index(fact)] = new

    return change


def found(kind: type[Fact], number: int = 0) -> Fact:
    return [fact for fact in RIGHT if isinstance(fact, kind)][number]


MUTANTS: dict[str, tuple[str, Change]] = {
    "a second run of one key": ("P1", after(found(Made), replace(found(Made), run=9))),
    "a token that falls": ("P2", instead(found(Claimed, 2), replace(found(Claimed, 2), token=9))),
    "a run in two hands": ("P2", after(found(Claimed), Claimed(3, 1, 11, "b.1", 2, False))),
    "a stale settlement": (
        "P2",
        after(found(Claimed, 2), Settled(12, 1, 10, "a.1", "a", "ended", "succeeded", True)),
    ),
    "a settlement of another replica": (
        "P2",
        instead(found(Settled), replace(found(Settled), replica="a.1")),
    ),
    "a run that ends twice": (
        "P2",
        after(found(Settled, 2), replace(found(Settled, 2), at=13)),
    ),
    "a claim after the end": ("P2", after(found(Settled, 2), Claimed(14, 1, 20, "b.1", 3, False))),
    "a stale write": ("P2", after(found(Claimed, 2), Applied(12, 1, 10, "a.1", "other"))),
    "a handler called twice for one claim": ("P2", after(found(Begun), found(Begun))),
    "a claim of the dead": (
        "P2",
        after(found(Settled, 1), Claimed(11, 1, 12, "a.1", 2, False)),
    ),
    "an effect claimed by a stale attempt": (
        "P2",
        after(found(Claimed, 2), Reserved(12, "work/one", "pay", 1, 10, 14)),
    ),
    "an outcome recorded by a stale attempt": (
        "P2",
        instead(found(Recorded), replace(found(Recorded), token=11)),
    ),
    "a run that is nowhere": ("P3", drop(found(Stood))),
    "a run still scheduled": (
        "P3",
        instead(found(Stood), replace(found(Stood), state="scheduled")),
    ),
    "a run still running": ("P3", instead(found(Stood), replace(found(Stood), state="running"))),
    "a parked run of a known job": (
        "P3",
        instead(found(Stood), replace(found(Stood), state="parked")),
    ),
    "a run that waits for an outcome that is known": (
        "P3",
        instead(found(Stood, 1), replace(found(Stood, 1), state="unknown")),
    ),
    "a fenced write twice": ("P4", after(found(Claimed, 2), Applied(12, 1, 13, "b.1", "one"))),
    "a call twice": ("P5", after(found(Landed), replace(found(Landed), at=7))),
    "a call that the ledger does not know": ("P5", drop(found(EffectStood))),
    "an outcome before the call": (
        "P5",
        instead(found(Recorded), replace(found(Recorded), at=5)),
    ),
    "a believer judged": ("P6", instead(found(Judged), replace(found(Judged), believed=True))),
    "a believer's run taken back": (
        "P6",
        instead(found(Settled, 1), replace(found(Settled, 1), believed=True)),
    ),
    "a fire time that nobody tells of": ("P7", drop(found(Ticked, 1))),
    "a fire time answered twice": ("P7", after(found(Ticked), replace(found(Ticked), at=3 * S))),
    "a fire time fired and missed": (
        "P7",
        instead(found(Missed), Missed(9 * S, "nightly", 2, (4 * S, 8 * S))),
    ),
    "a missed fire time that the store does not show": (
        "P7",
        instead(found(ScheduleStood), replace(found(ScheduleStood), told_missed=0)),
    ),
    "a judgement just after an outage": (
        "an outage kills nobody",
        lambda facts: facts.insert(facts.index(found(Judged)), Down(8, 5 * S)),
    ),
    "a schedule that has stopped": (
        "P7",
        instead(found(ScheduleStood), replace(found(ScheduleStood), now=60 * S)),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_history_is_caught_by_the_checker_of_its_promise(name: str) -> None:
    promise, change = MUTANTS[name]
    facts = list(RIGHT)

    change(facts)

    broken = {v.promise for v in checkers.check(History(facts)) if v.standing is Standing.VIOLATED}
    assert promise in broken


def test_each_promise_has_a_mutant() -> None:
    assert {promise for promise, _ in MUTANTS.values()} == {name for name, _ in checkers.PROMISES}


def test_a_run_brought_back_may_be_claimed_again() -> None:
    facts = [*RIGHT[:13], Freed(14, 1), Claimed(15, 1, 20, "b.1", 3, False)]

    assert checkers.one_valid_attempt(History(facts)).standing is Standing.VALID


def test_a_believer_is_excused_where_the_stores_clock_leapt_ahead() -> None:
    facts = [Stepped(8, 3 * S), Judged(9, "a.1", "b", 4 * S, True)]

    assert checkers.holder_knows(History(list(facts))).standing is Standing.VALID


def test_a_harmless_repeat_is_no_second_call() -> None:
    repeat = Landed(8, "pay/two", "pay", "key", harmless=True)
    facts = list(RIGHT)
    facts.insert(facts.index(found(Landed)) + 1, repeat)

    assert checkers.never_guessed(History(facts)).standing is Standing.VALID


def test_a_checker_that_fails_has_found_nothing_out() -> None:
    def fails(_: History) -> object:
        raise ZeroDivisionError

    [verdict] = judged([("P0", fails)], History())  # type: ignore[list-item]  # the point of it

    assert verdict.standing is Standing.UNKNOWN
