"""Enqueue: one run for each (job, key), and nothing for a key that is known."""

from __future__ import annotations

import json

from onejob.commands import runs, views
from onejob.commands.runs import Known, NewRun
from onejob.core.run import End as Ended
from onejob.core.run import Kind, Outcome, RunId
from onejob.core.time import HOUR, SECOND
from onejob.testing.conformance.given import (
    KEEP,
    NOW,
    Run,
    claim,
    joined,
    made,
    running,
    settle,
    state,
)
from onejob.testing.conformance.sessions import Sessions, gets_nothing


def test_a_run_without_a_key_of_the_callers_is_made_each_time(run: Run) -> None:
    first, second = made(run, "a"), made(run, "a")

    assert first != second
    assert run(runs.by_key(Kind.RUN, "mail", "a")) is None


def test_a_known_key_makes_no_second_run(run: Run) -> None:
    """E22"""
    first = made(run, "invoice-42", keyed=True, fingerprint="f1")

    again = run(runs.enqueue([NewRun("mail", "invoice-42", "{}", keyed=True)], now=NOW + SECOND))

    assert again == ()
    assert run(runs.by_key(Kind.RUN, "mail", "invoice-42")) == Known(first, "f1")
    assert len(run(views.runs(key="invoice-42"))) == 1


def test_the_same_key_asked_for_ten_thousand_times_makes_one_run(run: Run) -> None:
    """A17"""
    batch = [NewRun("mail", "only", "{}", keyed=True)] * 1_000

    answers = [run(runs.enqueue(batch, now=NOW)) for _ in range(10)]

    assert [len(answer) for answer in answers] == [1] + [0] * 9
    assert len(run(views.runs(key="only"))) == 1


def test_the_new_ones_of_a_batch_are_made_and_the_known_ones_are_absent(run: Run) -> None:
    """E04: a known key is an ordinary answer, and does not harm the batch around it."""
    for key in ("m2", "m5", "m8"):
        made(run, key, keyed=True, kind=Kind.MESSAGE)
    batch = [NewRun("mail", f"m{n}", "{}", keyed=True, kind=Kind.MESSAGE) for n in range(10)]

    answer = run(runs.enqueue(batch, now=NOW))

    assert sorted(one.place for one in answer) == [0, 1, 3, 4, 6, 7, 9]
    for one in answer:
        view = run(views.run_get(one.id))
        assert view is not None
        assert view.key == f"m{one.place}"


def test_keys_of_different_jobs_and_kinds_never_collide(run: Run) -> None:
    ids = {
        made(run, "same", job=job, kind=kind, keyed=True)
        for job in ("mail", "bill")
        for kind in Kind
    }

    assert len(ids) == 2 * len(Kind)
    assert {run(runs.by_key(kind, job, "same")) for job in ("mail", "bill") for kind in Kind} == {
        Known(id, "") for id in ids
    }


def test_a_key_is_held_while_its_run_is_scheduled_running_and_ended(run: Run) -> None:
    """E05"""
    new = NewRun("mail", "invoice-1", "{}", keyed=True)

    claimed = running(run, key="invoice-1", keyed=True)
    while_running = run(runs.enqueue([new], now=NOW))
    assert settle(run, claimed.claim, Ended(Outcome.FAILED, "no such address"))
    after_its_end = run(runs.enqueue([new], now=NOW + KEEP))

    assert while_running == after_its_end == ()
    assert run(runs.by_key(Kind.RUN, "mail", "invoice-1")) == Known(claimed.id, "")


def test_a_key_that_is_free_again_starts_a_run_with_nothing_of_the_old_one(run: Run) -> None:
    """B19"""
    old = running(run, key="invoice-1", keyed=True)
    assert settle(run, old.claim, Ended(Outcome.FAILED, "down"))
    later = NOW + KEEP + SECOND
    assert run(runs.purge(limit=10, now=later)) == 1

    id = made(run, "invoice-1", keyed=True, now=later)

    fresh = run(views.run_get(id))
    assert fresh is not None
    assert id != old.id
    assert (fresh.state, fresh.attempt, fresh.deaths, fresh.interrupted) == ("scheduled", 0, 0, 0)
    assert (fresh.token, fresh.replica, fresh.started, fresh.due) == (0, "", 0, later)
    assert (fresh.error, fresh.result, fresh.progress) == (None, None, None)


def test_a_run_is_due_now_unless_it_says_otherwise(run: Run) -> None:
    plain, delayed = made(run), made(run, delay=5 * SECOND)
    at, both = made(run, at=NOW + HOUR), made(run, at=NOW + HOUR, delay=SECOND)

    dues = [view.due for id in (plain, delayed, at, both) if (view := run(views.run_get(id)))]

    assert dues == [NOW, NOW + 5 * SECOND, NOW + HOUR, NOW + HOUR + SECOND]


def test_a_time_in_the_past_is_due_now_and_remembered_as_wanted(run: Run) -> None:
    made(run, at=NOW - HOUR)

    [claimed] = claim(run, joined(run))

    assert (claimed.due, claimed.wanted) == (NOW, NOW - HOUR)


def test_what_was_given_comes_back_to_the_letter(run: Run) -> None:
    """F16: large numbers, nesting and any text survive."""
    args = json.dumps({"n": 2**63, "t": ["é", "日本", "a'b\"c\\", "%s :name"], "x": None})
    id = made(run, "ключ:1 %", keyed=True, args=args, queue="slow", priority=9, on_loss="fail")

    [claimed] = claim(run, joined(run), queues=["slow"])

    assert claimed.id == id
    assert (claimed.key, claimed.args) == ("ключ:1 %", args)
    assert (claimed.queue, claimed.priority, claimed.kind) == ("slow", 9, "run")


def test_ids_beyond_what_a_float_can_hold_stay_exact(run: Run) -> None:
    """Where the store's sequences were set high before the test: 2^53 + 1 is no double."""
    first, second = made(run, "a"), made(run, "b")

    assert second == first + 1
    assert {one.id for one in claim(run, joined(run))} == {first, second}


def test_an_empty_batch_makes_nothing(run: Run) -> None:
    assert run(runs.enqueue([], now=NOW)) == ()


def test_runs_that_are_alike_have_their_own_arguments_and_keys_in_order(run: Run) -> None:
    """F16"""
    texts = [
        f'{{"n":{2**63 + 1}}}',
        '{"t":"\\u0000\\n\\"\\\\ 日本 %s :name"}',
        "{}",
        '{"f":1e+22,"g":-0.0}',
    ]
    like = NewRun("mail", "", "", queue="slow", priority=7, on_loss="fail", expect=SECOND)

    made = run(runs.enqueue_alike(like, f"[{','.join(texts)}]", stem="ab" * 12, now=NOW))

    claimed = {one.id: one for one in claim(run, joined(run), queues=["slow"])}
    assert [one.place for one in made] == [0, 1, 2, 3]
    assert [claimed[one.id].args for one in made] == texts
    assert [claimed[one.id].key for one in made] == [
        runs.alike_key("ab" * 12, place) for place in range(4)
    ]
    assert {(one.priority, one.kind, one.due) for one in claimed.values()} == {(7, "run", NOW)}
    assert run(runs.by_key(Kind.RUN, "mail", runs.alike_key("ab" * 12, 0))) is None


def test_runs_that_are_alike_are_due_when_they_say(run: Run) -> None:
    def due(like: NewRun) -> tuple[int, ...]:
        made = run(runs.enqueue_alike(like, "[{},{}]", stem="cd" * 12, now=NOW))
        return tuple(view.due for one in made if (view := run(views.run_get(one.id))))

    assert due(NewRun("mail", "", "", delay=SECOND)) == (NOW + SECOND,) * 2
    assert due(NewRun("mail", "", "", at=NOW + HOUR, delay=SECOND)) == (NOW + HOUR + SECOND,) * 2
    assert due(NewRun("mail", "", "", at=NOW - HOUR)) == (NOW, NOW)
    assert run(runs.enqueue_alike(NewRun("mail", "", ""), "[]", stem="e" * 24, now=NOW)) == ()


def test_a_rolled_back_transaction_leaves_neither_run_nor_key(run: Run, sessions: Sessions) -> None:
    """E26"""
    session = sessions.open()
    [one] = session.run(runs.enqueue([NewRun("mail", "order-1", "{}", keyed=True)], now=NOW))
    session.rollback()

    assert state(run, one.id) == "gone"
    assert run(runs.by_key(Kind.RUN, "mail", "order-1")) is None
    assert made(run, "order-1", keyed=True)


def test_a_committed_transaction_leaves_the_run(run: Run, sessions: Sessions) -> None:
    """E26"""
    session = sessions.open()
    [one] = session.run(runs.enqueue([NewRun("mail", "order-1", "{}", keyed=True)], now=NOW))
    seen_before = state(run, one.id)
    session.commit()

    assert seen_before == "gone"
    assert state(run, one.id) == "scheduled"


def test_a_run_follows_the_savepoint_that_it_was_made_in(run: Run, sessions: Sessions) -> None:
    """E27"""
    session = sessions.open()
    kept: RunId = made(session.run, "kept", keyed=True)
    session.savepoint()
    undone = made(session.run, "undone", keyed=True)
    session.rollback_to_savepoint()
    session.commit()

    assert state(run, kept) == "scheduled"
    assert state(run, undone) == "gone"
    assert run(runs.by_key(Kind.RUN, "mail", "undone")) is None


def test_whoever_waits_for_a_key_gets_it_when_the_first_rolls_back(
    run: Run, sessions: Sessions
) -> None:
    """E06"""
    new = NewRun("mail", "order-1", "{}", keyed=True)
    first, second = sessions.open(), sessions.open()
    assert first.run(runs.enqueue([new], now=NOW))

    assert gets_nothing(lambda: second.run(runs.enqueue([new], now=NOW)))
    second.rollback()
    first.rollback()

    [won] = second.run(runs.enqueue([new], now=NOW))
    second.commit()
    assert run(runs.by_key(Kind.RUN, "mail", "order-1")) == Known(won.id, "")


def test_whoever_waits_for_a_key_finds_it_known_when_the_first_commits(
    run: Run, sessions: Sessions
) -> None:
    """E06"""
    new = NewRun("mail", "order-1", "{}", keyed=True)
    first, second = sessions.open(), sessions.open()
    [won] = first.run(runs.enqueue([new], now=NOW))
    assert gets_nothing(lambda: second.run(runs.enqueue([new], now=NOW)))
    second.rollback()
    first.commit()

    assert second.run(runs.enqueue([new], now=NOW)) == ()
    assert second.run(runs.by_key(Kind.RUN, "mail", "order-1")) == Known(won.id, "")
