"""Guards, one by one: a claim that is wrong in a single part is refused, and nothing else moves.

Each command is tried with near misses (the right run under an older token, under another replica,
another run under the right ones, the right claim of a run that is not running), and with neighbours
beside what it names. A guard that is missing from a WHERE shows here, whichever part it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from onejob.commands import ledger, runs, schedules, views
from onejob.commands.command import Command
from onejob.commands.ledger import NewEntry
from onejob.core.effect import EntryState
from onejob.core.run import (
    Again,
    Claim,
    End,
    Kind,
    LeaveUnknown,
    Outcome,
    Park,
    ReplicaId,
    Settlement,
    Token,
)
from onejob.core.time import HOUR, SECOND
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    claim,
    defined,
    joined,
    made,
    running,
    settle,
    state,
    stored,
)

CHARGE = NewEntry("mail/k", "charge", "owner")
OPEN = NewEntry("inbox", "open", "owner")

Guarded = Callable[[Claim, Token], Command[Any]]


def _settled(settlement: Settlement) -> Guarded:
    return lambda claim, held: runs.settle([(claim, settlement)], keep=KEEP, now=NOW)


#: Every command that carries the claim of a running run; the token is that of an open effect.
GUARDED: dict[str, Guarded] = {
    "end": _settled(End(Outcome.FAILED, "down")),
    "again": _settled(Again(SECOND, Outcome.FAILED)),
    "park": _settled(Park()),
    "leave unknown": _settled(LeaveUnknown("?")),
    "fence": lambda claim, held: runs.fence(claim, idle_limit=SECOND, now=NOW),
    "progress": lambda claim, held: runs.progress(claim, "half"),
    "first": lambda claim, held: ledger.first_in_run(claim, "mail/k", "s", keep=KEEP, now=NOW),
    "claim": lambda claim, held: ledger.claim_in_run(claim, CHARGE, now=NOW),
    "claim many": lambda claim, held: ledger.claim_many_in_run(
        claim, "mail/k", {"a": "", "b": ""}, owner="owner", now=NOW
    ),
    "reclaim": lambda claim, held: ledger.reclaim(OPEN, held=held, run=claim, now=NOW),
}
MISSES = ["older token", "other replica", "other run", "not running", "ended"]


@pytest.mark.parametrize("command", GUARDED)
def test_the_right_claim_passes_every_guard(run: Run, command: str) -> None:
    claimed, held = running(run), _open_effect(run)

    assert run(GUARDED[command](claimed.claim, held))


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize("command", GUARDED)
def test_a_claim_that_is_wrong_in_one_part_changes_nothing(
    run: Run, command: str, miss: str
) -> None:
    """B13, B20, C01, C08: and not only says so."""
    held = _open_effect(run)
    wrong = _near_miss(run, miss)
    before = _everything(run)

    answer = run(GUARDED[command](wrong, held))

    assert not answer
    assert _everything(run) == before


@pytest.mark.parametrize("command", GUARDED)
def test_a_command_leaves_its_neighbours_alone(run: Run, command: str) -> None:
    held = _open_effect(run)
    replica, due = joined(run), NOW - HOUR
    made(run, "k1", at=due)
    made(run, "k2", at=due)
    made(run, "k3", at=due + 1, keyed=True)
    one, other = claim(run, replica, limit=2)
    waiting = run(views.runs(key="k3"))

    assert run(GUARDED[command](one.claim, held))

    assert run(runs.held(replica))[-1:] == (other,)
    assert run(views.runs(key="k3")) == waiting


def test_ending_one_of_several_runs_leaves_the_rest(run: Run) -> None:
    """C08"""
    ids = [made(run, f"k{n}") for n in range(4)]
    parked, unknown, *_ = claim(run, joined(run), limit=2)
    assert settle(run, parked.claim, Park())
    assert settle(run, unknown.claim, LeaveUnknown("?"))
    before = [run(views.run_get(id)) for id in (*ids[:2], ids[3])]

    assert run(runs.cancel(ids[2], keep=KEEP, now=NOW))

    assert [run(views.run_get(id)) for id in (*ids[:2], ids[3])] == before
    assert [view.id for view in run(views.runs(state="ended"))] == [ids[2]]


def test_retrying_one_run_leaves_the_rest(run: Run) -> None:
    ids = [made(run, f"k{n}") for n in range(4)]
    held = claim(run, joined(run))
    ways_out: list[Settlement] = [DONE, DONE, Park(), LeaveUnknown("?")]
    for one, way_out in zip(held, ways_out, strict=True):
        assert settle(run, one.claim, way_out)
    before = [run(views.run_get(id)) for id in ids[1:]]

    assert run(runs.retry(ids[0], now=NOW + HOUR))
    after_the_ended_one = [run(views.run_get(id)) for id in ids[1:]]
    assert run(runs.retry(ids[2], now=NOW + HOUR))

    assert after_the_ended_one == before
    assert [run(views.run_get(id)) for id in (ids[1], ids[3])] == [before[0], before[2]]
    retried = [e.run_id for e in run(views.events()) if e.kind == "run.retried"]
    assert retried == [ids[0], ids[2]]


def test_a_retry_continues_from_the_latest_end(run: Run) -> None:
    """P1: what an earlier end said is history."""
    claimed = running(run)
    assert settle(run, claimed.claim, End(Outcome.FAILED, "first"))
    assert run(runs.retry(claimed.id, now=NOW))
    [again] = claim(run, claimed.replica)
    assert settle(run, again.claim, End(Outcome.FAILED, "second"))

    assert run(runs.retry(claimed.id, now=NOW))

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert (view.token, view.attempt, view.error) == (again.token, 2, "second")
    retried = [e for e in run(views.events(run_id=claimed.id)) if e.kind == "run.retried"]
    assert [event.token for event in retried] == [claimed.token, again.token]


def test_a_refused_retry_leaves_no_event(run: Run) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, DONE)
    assert run(runs.retry(claimed.id, now=NOW))
    told = run(views.events())

    assert not run(runs.retry(claimed.id, now=NOW))
    assert run(views.events()) == told


def test_unpark_moves_nothing_that_is_not_parked(run: Run) -> None:
    ids = [made(run, f"k{n}") for n in range(3)]
    held = claim(run, joined(run))
    assert settle(run, held[0].claim, LeaveUnknown("?"))
    assert settle(run, held[1].claim, DONE)

    assert run(runs.unpark(["mail"], now=NOW)) == 0
    states = [view.state for view in run(views.runs())]
    assert (states, len(ids)) == (["running", "ended", "unknown"], 3)


def test_a_key_is_looked_up_by_all_its_parts(run: Run) -> None:
    first, second = made(run, "a", keyed=True), made(run, "b", keyed=True)

    found = [run(runs.by_key(Kind.RUN, "mail", key)) for key in ("a", "b", "c")]

    assert found == [runs.Known(first, ""), runs.Known(second, ""), None]


def test_standings_are_of_exactly_the_runs_asked_about(run: Run) -> None:
    ids = [made(run, f"k{n}") for n in range(4)]
    for one in claim(run, joined(run), limit=2):
        assert settle(run, one.claim, DONE)

    standings = run(runs.standings([ids[0], ids[3]]))

    assert standings.keys() == {ids[0], ids[3]}


def test_a_suspect_is_claimed_alone_though_an_innocent_run_is_due_before_it(run: Run) -> None:
    """B04"""
    suspect = running(run)
    assert settle(run, suspect.claim, Again(SECOND, Outcome.ABANDONED))
    made(run, "innocent", at=NOW - HOUR)

    [taken] = run(
        runs.claim_alone(["default"], jobs=["mail"], replica=suspect.replica, now=NOW + SECOND)
    )

    assert taken.id == suspect.id


@pytest.mark.parametrize("act", ["record", "release", "reclaim"])
def test_an_entry_is_found_by_kind_scope_key_and_token(run: Run, act: str) -> None:
    """E15: the same key elsewhere, another key here, a run of that very name: all stay."""
    made(run, "charge", job="mail/k", keyed=True)
    token = run(ledger.claim(CHARGE, now=NOW))
    others = [replace(CHARGE, scope="mail/l"), replace(CHARGE, key="refund")]
    theirs = [run(ledger.claim(other, now=NOW)) for other in others]
    assert token
    before = [run(ledger.read(one.scope, [one.key], now=NOW)) for one in others]
    acts: dict[str, Callable[[NewEntry, Token], Command[Any]]] = {
        "record": lambda entry, token: ledger.record(
            entry.scope,
            entry.key,
            token=token,
            state=EntryState.DONE,
            result=None,
            keep=KEEP,
            now=NOW,
        ),
        "release": lambda entry, token: ledger.release(
            entry.scope, entry.key, token=token, now=NOW
        ),
        "reclaim": lambda entry, token: ledger.reclaim(entry, held=token, now=NOW),
    }

    crossed = [run(acts[act](other, token)) for other in others]
    right = run(acts[act](CHARGE, token))

    assert not any(crossed)
    assert right
    assert all(theirs)
    assert [run(ledger.read(one.scope, [one.key], now=NOW)) for one in others] == before
    assert run(runs.by_key(Kind.RUN, "mail/k", "charge")) is not None


def test_keys_of_runs_are_not_among_the_effects(run: Run) -> None:
    made(run, "charge", job="mail/k", keyed=True)

    assert run(ledger.read("mail/k", ["charge"], now=NOW)) == ()
    assert run(ledger.unsettled(limit=10, now=NOW)) == ()


@pytest.mark.parametrize("act", ["record", "release"])
def test_an_outcome_wakes_only_the_run_that_waits_for_it(run: Run, act: str) -> None:
    """P5"""
    made(run, "k1")
    made(run, "k2")
    waiting, working = claim(run, joined(run))
    other = running(run, "replica-b", key="k3")
    assert settle(run, other.claim, LeaveUnknown("something else"))
    tokens = [
        run(ledger.claim_in_run(one.claim, replace(CHARGE, key=str(one.id)), now=NOW))
        for one in (waiting, working)
    ]
    assert settle(run, waiting.claim, LeaveUnknown("charge"))

    for one, token in zip((working, waiting), tokens[::-1], strict=True):
        assert token
        assert state(run, waiting.id) == "unknown"
        if act == "release":
            assert run(ledger.release("mail/k", str(one.id), token=token, now=NOW))
        else:
            assert run(
                ledger.record(
                    "mail/k",
                    str(one.id),
                    token=token,
                    state=EntryState.DONE,
                    result=None,
                    keep=KEEP,
                    now=NOW,
                )
            )

    states = [view.state for view in run(views.runs())]
    assert states == ["unknown", "running", "scheduled"]


def test_what_is_done_to_one_schedule_leaves_the_others(run: Run) -> None:
    defined(run, "a")
    other = defined(run, "b")
    told = run(views.events(schedule="b"))

    assert run(schedules.pause("a", now=NOW))
    assert run(schedules.mark_broken("a", revision=2, why="?", now=NOW))

    assert stored(run, "b") == other
    assert run(views.events(schedule="b")) == told


def test_the_refused_leave_no_event_about_a_schedule(run: Run) -> None:
    defined(run, "a")
    told = run(views.events())

    assert not run(schedules.mark_broken("a", revision=9, why="?", now=NOW))
    assert not run(schedules.mark_broken("b", revision=1, why="?", now=NOW))
    assert not run(schedules.pause("b", now=NOW))
    assert run(views.events()) == told


def test_a_skipped_fire_time_keeps_no_key(run: Run) -> None:
    """A20: skipped is not done; a person may still run it by its name."""
    first = schedules.tick(
        [schedules.Step("s", defined(run, "s").revision, NOW, NOW, (_fire(NOW),))],
        replica="a",
        now=NOW,
    )
    assert [one.answer for one in run(first)] == ["fired"]
    late = schedules.Step(
        "s", stored(run, "s").revision, NOW + 1, NOW, (_fire(NOW + 1),), overlap="skip"
    )

    [skipped] = run(schedules.tick([late], replica="a", now=NOW + 1))

    assert skipped.answer == "skipped"
    assert run(runs.by_key(Kind.SCHEDULE, "mail", f"s@{NOW + 1}")) is None


def _fire(at: int) -> schedules.Fire:
    return schedules.Fire(f"s@{at}", at, "mail", "{}", "default", 0, "retry")


def _open_effect(run: Run) -> Token:
    token = run(ledger.claim(OPEN, now=NOW))
    assert token
    return token


def _near_miss(run: Run, miss: str) -> Claim:
    """Return a claim that is right in every part but one."""
    old = running(run)
    match miss:
        case "older token":
            assert settle(run, old.claim, Again(0, Outcome.FAILED))
            [new] = claim(run, old.replica)
            assert (new.id, new.replica) == (old.id, old.replica)
            return old.claim
        case "other replica":
            return old.claim._replace(replica=ReplicaId("replica-b"))
        case "other run":
            other = made(run, "k2")
            assert [one.id for one in claim(run, old.replica)] == [other]
            return old.claim._replace(id=other)
        case "not running":
            assert settle(run, old.claim, Again(0, Outcome.FAILED))
            return old.claim._replace(replica=ReplicaId(""))
        case _:
            assert settle(run, old.claim, DONE)
            return old.claim


def _everything(run: Run) -> tuple[object, ...]:
    return (
        run(views.runs()),
        run(views.events()),
        run(ledger.read("mail/k", ["charge", "s"], now=NOW)),
        run(ledger.read("inbox", ["open"], now=NOW)),
    )
