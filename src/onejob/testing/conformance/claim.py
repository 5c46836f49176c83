"""Claim: who may take which runs, in which order, under which token."""

from __future__ import annotations

from onejob.commands import replicas, runs
from onejob.commands.runs import NewRun
from onejob.core.run import Again, ClaimedRun, Outcome, ReplicaId
from onejob.core.time import HOUR, SECOND
from onejob.core.watermark import Probe, full_probes
from onejob.testing.conformance.given import (
    KEEP,
    LEASE,
    NOW,
    Run,
    claim,
    claim_alone,
    joined,
    made,
    running,
    settle,
    state,
    taken_over,
)


def test_a_claimed_run_names_who_has_it_and_counts_the_attempt(run: Run) -> None:
    """A06, B04: the attempt is counted as it begins, whatever becomes of it."""
    id, replica = made(run, "a", keyed=True), joined(run)

    [claimed] = claim(run, replica, now=NOW + SECOND)

    assert (claimed.id, claimed.replica, claimed.attempt) == (id, replica, 1)
    assert (claimed.claimed, claimed.due, claimed.wanted) == (NOW + SECOND, NOW, NOW)
    assert (claimed.deaths, claimed.interrupted, claimed.schedule, claimed.fire_time) == (
        0,
        0,
        "",
        0,
    )
    assert claimed.token > 0


def test_a_run_is_claimed_once(run: Run) -> None:
    """C30"""
    made(run)

    first, second = claim(run, joined(run, "a")), claim(run, joined(run, "b"))

    assert len(first) == 1
    assert second == ()


def test_two_replicas_share_what_is_due(run: Run) -> None:
    ids = {made(run) for _ in range(10)}

    mine, theirs = claim(run, joined(run, "a"), limit=6), claim(run, joined(run, "b"), limit=6)

    assert (len(mine), len(theirs)) == (6, 4)
    assert {one.id for one in (*mine, *theirs)} == ids


def test_every_claim_draws_a_token_of_its_own(run: Run) -> None:
    """C09"""
    for _ in range(5):
        made(run)

    tokens = [one.token for one in claim(run, joined(run))]

    assert len(set(tokens)) == 5


def test_the_token_rises_with_each_holder_and_is_never_used_again(run: Run) -> None:
    """C09"""
    replica = joined(run)
    made(run)
    tokens = []
    for _ in range(4):
        [claimed] = claim(run, replica)
        tokens.append(claimed.token)
        assert settle(run, claimed.claim, Again(0, Outcome.FAILED))

    assert tokens == sorted(set(tokens))


def test_a_token_is_not_used_again_when_the_run_ends_and_another_begins(run: Run) -> None:
    """C09: nor when every row that carried it is gone."""
    first = running(run)
    assert run(runs.settle([(first.claim, Again(0, Outcome.FAILED))], keep=KEEP, now=NOW))
    assert run(runs.cancel(first.id, keep=0, now=NOW))
    assert run(runs.purge(limit=10, now=NOW + 1)) == 1

    second = running(run)

    assert second.token > first.token


def test_smaller_priority_comes_first_then_due_then_id(run: Run) -> None:
    late = made(run, "late", priority=3, at=NOW + 2)
    first = made(run, "first", priority=1, at=NOW + 3)
    early = made(run, "early", priority=3, at=NOW + 1)
    twin = made(run, "twin", priority=3, at=NOW + 1)

    order = [one.id for one in claim(run, joined(run), now=NOW + 5)]

    assert order == [first, early, twin, late]


def test_a_limit_takes_the_first_ones_in_order(run: Run) -> None:
    made(run, "low", priority=9)
    high = [made(run, f"high-{n}", priority=2) for n in range(3)]
    replica = joined(run)

    taken = [one.id for _ in range(3) for one in claim(run, replica, limit=1)]

    assert taken == high


def test_a_future_run_is_not_claimed_before_its_time(run: Run) -> None:
    """B01"""
    id, replica = made(run, at=NOW + 10 * HOUR), joined(run)

    before = [claim(run, replica, now=NOW + n * HOUR) for n in range(10)]
    at_its_time = claim(run, replica, now=NOW + 10 * HOUR)

    assert before == [()] * 10
    assert [one.id for one in at_its_time] == [id]


def test_jobs_that_a_replica_does_not_know_are_left_alone(run: Run) -> None:
    """F14, G01"""
    unknown, known = made(run, job="os:system"), made(run, job="mail")

    taken = claim(run, joined(run))

    assert [one.id for one in taken] == [known]
    assert state(run, unknown) == "scheduled"


def test_only_the_queues_that_were_asked_for_are_looked_into(run: Run) -> None:
    made(run, "other", queue="slow")
    id = made(run, "mine")

    assert [one.id for one in claim(run, joined(run))] == [id]


def test_a_replica_that_never_joined_claims_nothing(run: Run) -> None:
    made(run)

    assert claim(run, ReplicaId("nobody")) == ()


def test_a_dead_replica_claims_nothing(run: Run) -> None:
    """P2"""
    replica = joined(run)
    id, late = made(run), NOW + LEASE + 1
    assert run(replicas.judge(now=late)) == (replica,)

    assert claim(run, replica, now=late) == ()
    assert state(run, id) == "scheduled"


def test_a_replica_that_left_claims_nothing(run: Run) -> None:
    replica = joined(run)
    made(run)
    assert run(replicas.leave(replica, now=NOW))

    assert claim(run, replica) == ()


def test_a_probe_finds_only_what_lies_behind_its_mark(run: Run) -> None:
    ids = [made(run, at=NOW + n) for n in range(5)]
    mark = Probe("default", 0, NOW + 2, ids[2])

    behind = run(runs.claim([mark], jobs=["mail"], replica=joined(run), limit=10, now=NOW + 10))

    assert [one.id for one in behind] == ids[3:]


def test_a_probe_compares_ids_where_due_times_are_equal(run: Run) -> None:
    ids = [made(run) for _ in range(5)]
    mark = Probe("default", 0, NOW, ids[1])

    behind = run(runs.claim([mark], jobs=["mail"], replica=joined(run), limit=10, now=NOW))

    assert [one.id for one in behind] == ids[2:]


def test_full_probes_find_what_appeared_before_every_mark(run: Run) -> None:
    """A watermark is a hint: whatever it hides, a full claim finds."""
    replica = joined(run)
    given_back = running(run, "replica-a", priority=5, at=NOW - HOUR)
    assert settle(run, given_back.claim, Again(0, Outcome.FAILED))
    last = made(run, priority=5, at=NOW + SECOND)
    mark = Probe("default", 5, NOW + SECOND, last)

    fast = run(runs.claim([mark], jobs=["mail"], replica=replica, limit=10, now=NOW + 2 * SECOND))
    full = claim(run, replica, now=NOW + 2 * SECOND)

    assert fast == ()
    assert [one.id for one in full] == [given_back.id, last]


def test_probes_are_answered_in_their_order_up_to_the_limit(run: Run) -> None:
    slow, fast = made(run, queue="slow", at=NOW - SECOND), made(run, queue="fast")
    probes = [*full_probes(["fast"]), *full_probes(["slow"])]

    [first] = run(runs.claim(probes, jobs=["mail"], replica=joined(run), limit=1, now=NOW))

    assert first.id == fast
    assert state(run, slow) == "scheduled"


def test_runs_that_outlived_a_replica_are_not_claimed_in_a_batch(run: Run) -> None:
    """B04: what may have killed its replica must not take its neighbours down with the next."""
    suspect = running(run)
    assert settle(run, suspect.claim, Again(0, Outcome.ABANDONED))
    neighbour = made(run)

    taken = claim(run, joined(run, "b"))

    assert [one.id for one in taken] == [neighbour]


def test_exactly_one_suspect_is_claimed_alone(run: Run) -> None:
    """B04"""
    replica = joined(run)
    suspects = _suspects(run, replica, 3)
    made(run, "innocent")

    first, second = claim_alone(run, replica), claim_alone(run, replica)

    assert [one.id for one in (*first, *second)] == [one.id for one in suspects[:2]]
    assert [one.deaths for one in first] == [1]


def test_no_suspect_is_claimed_before_it_is_due_or_by_the_dead(run: Run) -> None:
    suspect = running(run)
    assert settle(run, suspect.claim, Again(5 * SECOND, Outcome.ABANDONED))
    dead, live = joined(run, "dead"), joined(run, "live")
    assert run(replicas.leave(dead, now=NOW))

    too_early = claim_alone(run, live)
    by_the_dead = claim_alone(run, dead, now=NOW + 5 * SECOND)
    [in_time] = claim_alone(run, live, now=NOW + 5 * SECOND)

    assert too_early == by_the_dead == ()
    assert in_time.id == suspect.id


def test_a_suspect_of_an_unknown_job_or_queue_is_not_claimed_alone(run: Run) -> None:
    suspect = running(run)
    assert settle(run, suspect.claim, Again(0, Outcome.ABANDONED))
    replica = joined(run, "b")

    other_job = run(runs.claim_alone(["default"], jobs=["bill"], replica=replica, now=NOW))
    other_queue = run(runs.claim_alone(["slow"], jobs=["mail"], replica=replica, now=NOW))

    assert other_job == other_queue == ()


def test_what_runs_under_a_replica_can_be_read_after_a_lost_reply(run: Run) -> None:
    """A claim whose reply is lost has committed all the same: nothing of it may be forgotten."""
    for _ in range(3):
        made(run)
    replica = joined(run)

    claimed = claim(run, replica)

    assert run(runs.held(replica)) == claimed
    assert run(runs.held(ReplicaId("somebody else"))) == ()


def test_a_superseded_attempt_is_no_longer_among_what_its_replica_holds(run: Run) -> None:
    """F10"""
    old = running(run)
    new = taken_over(run, old)

    assert run(runs.held(old.replica)) == ()
    assert run(runs.held(new.replica)) == (new,)


def test_standings_tell_who_holds_a_run(run: Run) -> None:
    """B17: a lost reply is resolved by looking, never by doing it again."""
    old = running(run)
    new = taken_over(run, old)
    waiting = made(run, "w")

    standings = run(runs.standings([old.id, waiting]))

    assert (standings[old.id].token, standings[old.id].replica) == (new.token, new.replica)
    assert standings[waiting].state == "scheduled"
    assert len(standings) == 2


def test_a_batch_far_larger_than_the_limit_leaves_the_rest_due(run: Run) -> None:
    run(runs.enqueue([NewRun("mail", f"k{n}", "{}") for n in range(500)], now=NOW))
    replica = joined(run)

    sizes = [len(claim(run, replica, limit=200)) for _ in range(4)]

    assert sizes == [200, 200, 100, 0]


def _suspects(run: Run, replica: ReplicaId, count: int) -> list[ClaimedRun]:
    for n in range(count):
        made(run, f"suspect-{n}")
    taken = list(claim(run, replica))
    for one in taken:
        assert settle(run, one.claim, Again(0, Outcome.ABANDONED))
    return taken
