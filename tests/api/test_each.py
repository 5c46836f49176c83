"""One effect for each of many items: skipped, grouped, set aside, on real stores."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from api.conftest import Begin
from onejob import (
    App,
    AsyncRun,
    EachResult,
    EffectUnknown,
    ItemsSetAside,
    LeaseLost,
    NotSent,
    OutcomeUnknown,
    Run,
    SetAside,
    UsageError,
)
from onejob import loop_steps as asks
from onejob.commands.command import Command
from onejob.effect import Options


class Refused(Exception):
    """The provider says no, for good."""


class Mail:
    """Counts whom it was told to write to; ``answers`` says how it fails for some, each time."""

    def __init__(self, **answers: Exception) -> None:
        self.answers = answers
        self.sent: Counter[str] = Counter()
        self.keys: dict[str, str] = {}
        self._counting = threading.Lock()

    def __call__(self, user: str, *, idempotency_key: str = "") -> str:
        with self._counting:
            self.sent[user] += 1
            assert self.keys.setdefault(user, idempotency_key) == idempotency_key
        if user in self.answers:
            raise self.answers[user]
        return f"receipt of {user}"


REPEAT: dict[str, Any] = {
    "if_unknown": "repeat",
    "pass_key_as": "idempotency_key",
    "provider_keeps": "24h",
}


def name(user: str) -> str:
    return f"digest:{user}"


@pytest.fixture
def run(app: App, begin: Begin) -> Run:
    @app.job()
    def nightly() -> None: ...

    nightly.using(key="may").enqueue()
    started: Run = begin()
    return started


@pytest.fixture
def again(begin: Begin, run: Run) -> Callable[[], Run]:
    """The next attempt of the same run, by another replica."""
    return lambda: begin(takeover=True)


@contextmanager
def watched(app: App, lose: str = "", times: int = 1) -> Iterator[list[Command[Any]]]:
    """Keep what is sent to the store; lose the replies of the first ``lose`` commands."""
    store: Any = app.store
    sent: list[Command[Any]] = []
    plain, left = store.run, [times]

    def run(command: Command[Any], within: object = None) -> Any:
        sent.append(command)
        answer = plain(command, within)
        if command.name == lose and left[0]:
            left[0] -= 1
            raise OutcomeUnknown(command.name, "test", "the reply is gone")
        return answer

    store.run = run
    try:
        yield sent
    finally:
        del store.run


def states(app: App, users: str, scope: str = "nightly/may") -> list[str]:
    effects = [app.effects.get(scope, name(user)) for user in users]
    return ["absent" if effect is None else effect.state for effect in effects]


def test_every_item_is_called_once_and_skipped_afterwards(app: App, run: Run, again: Any) -> None:
    mail = Mail()
    users = [f"u{n}" for n in range(1_100)]

    first = run.each(users, mail, key=name)
    beside = run.effect(name("u7"), mail, "u7")
    second = again().each(users, mail, key=name)

    assert (first.done, first.skipped, first.set_aside, first.unknown) == (1_100, 0, 0, 0)
    assert (second.done, second.skipped) == (0, 1_100)
    assert beside == "receipt of u7"
    assert set(mail.sent.values()) == {1}
    assert app.runs.get(run.id).progress == {"done": 1_100, "total": 1_100, "note": ""}


def test_what_is_done_costs_one_read_for_a_page(app: App, run: Run, again: Any) -> None:
    users = [f"u{n}" for n in range(1_100)]
    run.each(users, Mail(), key=name, concurrency=100)
    newer = again()

    with watched(app) as sent:
        newer.each(users, Mail(), key=name)

    assert Counter(command.name for command in sent) == {"effect_read": 3, "run_progress": 1}


def test_claims_and_records_of_many_go_together(app: App, run: Run) -> None:
    """An item by itself would take two commands: at most an item's share of a batch is left."""
    with watched(app) as sent:
        run.each([f"u{n}" for n in range(1_000)], Mail(), key=name, concurrency=50)

    count = Counter(command.name for command in sent)
    assert count["effect_claim_many_in_run"] + count["effect_record_many"] < 300


def test_an_item_is_claimed_just_before_its_call(app: App, run: Run) -> None:
    """At most twice as many are claimed and not recorded as can be called at once."""
    seen: list[int] = []

    def call(user: str) -> None:
        seen.append(len(app.store.run(unsettled())))  # type: ignore[arg-type]  # the store's own

    run.each([f"u{n}" for n in range(300)], call, key=name, concurrency=5)

    assert max(seen) <= 10


def unsettled() -> Any:
    from onejob.commands import ledger

    return ledger.unsettled(limit=1_000)


def test_no_more_calls_are_made_at_once_than_asked_for(run: Run) -> None:
    at_once, most, counting = 0, 0, threading.Lock()
    together = threading.Barrier(4)

    def call(user: str) -> None:
        nonlocal at_once, most
        with counting:
            at_once += 1
            most = max(most, at_once)
        together.wait(20)  # four are there at once, or nobody goes on
        with counting:
            at_once -= 1

    run.each([f"u{n}" for n in range(40)], call, key=name, concurrency=4)

    assert most == 4


def test_no_more_than_a_page_is_held(run: Run) -> None:
    """Bounded memory over any iterable."""
    taken, called, ahead = 0, 0, 0

    def users() -> Iterator[str]:
        nonlocal taken
        for n in range(2_000):
            taken += 1
            yield f"u{n}"

    def call(user: str) -> None:
        nonlocal called, ahead
        ahead = max(ahead, taken - called)
        called += 1

    result = run.each(users(), call, key=name, concurrency=1)

    assert result.done == 2_000
    assert ahead <= 500 + 2


def test_a_failing_item_stands_in_nobodys_way(app: App, run: Run, again: Any) -> None:
    mail = Mail(b=Refused("declined"), c=NotSent("no route"), d=TimeoutError("read timed out"))

    result = run.each("abcde", mail, key=name, final=Refused)
    mail.answers.clear()
    second = again().each("abcde", mail, key=name, final=Refused)

    assert (result.done, result.set_aside, result.unknown, result.seen) == (2, 2, 1, 5)
    assert sorted(result.items, key=lambda one: one.key) == [
        SetAside("digest:b", "failed", "Refused: declined"),
        SetAside("digest:c", "error", "NotSent: no route"),
        SetAside("digest:d", "unknown", "TimeoutError: read timed out"),
    ]
    # What was not sent is called again; what was refused, or may have happened, is not.
    assert mail.sent == {"a": 1, "b": 1, "c": 2, "d": 1, "e": 1}
    assert (second.done, second.skipped, second.set_aside, second.unknown) == (1, 2, 1, 1)
    assert states(app, "abcde") == ["done", "failed", "done", "unknown", "done"]


def test_an_unknown_item_is_repeated_where_the_provider_knows_its_key(
    app: App, run: Run, again: Any
) -> None:
    """E11: with the same key, in the next attempt."""
    mail = Mail(b=TimeoutError())

    first = run.each("abc", mail, key=name, **REPEAT)
    mail.answers.clear()
    second = again().each("abc", mail, key=name, **REPEAT)

    assert (first.unknown, first.repeatable) == (1, 1)
    assert (second.done, second.skipped, second.unknown) == (1, 2, 0)
    assert mail.sent == {"a": 1, "b": 2, "c": 1}
    assert states(app, "abc") == ["done"] * 3


def test_what_a_dead_attempt_had_claimed_is_unknown_and_the_rest_goes_on(
    app: App, run: Run, again: Any
) -> None:
    """E24"""
    mail = Mail(b=KeyboardInterrupt())  # type: ignore[arg-type]  # as a process's end would
    with pytest.raises(KeyboardInterrupt):
        run.effect(name("b"), mail, "b")

    result = again().each("abc", mail, key=name)

    assert (result.done, result.unknown) == (2, 1)
    assert mail.sent == {"a": 1, "b": 1, "c": 1}


def test_a_superseded_attempt_claims_nothing_more(app: App, run: Run, again: Any) -> None:
    """P2, P5: what it has called it records; what it has only claimed it gives back."""
    took_over = threading.Event()
    called: list[str] = []

    def call(user: str) -> str:
        called.append(user)
        if user == "u3" and not took_over.is_set():
            again()
            took_over.set()
        return user

    with pytest.raises(LeaseLost):
        run.each([f"u{n}" for n in range(500)], call, key=name, concurrency=2)

    done = [f"u{n}" for n in range(500) if states(app, [f"u{n}"]) == ["done"]]  # type: ignore[arg-type]
    assert sorted(done) == sorted(called)
    assert len(called) < 20
    assert app.effects.unknown() == []


def test_one_that_has_lost_its_lease_gives_back_what_it_has_not_called(app: App, run: Run) -> None:
    gate, attempt = threading.Event(), run._attempt
    called: list[str] = []

    def call(user: str) -> None:
        called.append(user)
        attempt.revoke("its replica is stopping")
        gate.wait(20)

    threading.Timer(0.3, gate.set).start()
    with pytest.raises(LeaseLost, match="is stopping"):
        run.each("abcdefgh", call, key=name, concurrency=1)

    assert called == ["a"]
    assert states(app, "abcdefgh") == ["done", *["absent"] * 7]


def test_what_was_claimed_and_not_called_is_given_back(app: App, run: Run) -> None:
    """P5: of a claim that nobody has called for, it is known that nothing happened."""
    options = Options(
        if_unknown="raise", pass_key_as=None, fingerprint=None, provider_keeps=None, final=()
    )
    looping = run._looping("abc", one, name, 3, "set-aside", False, options)
    steps = looping.steps()
    waiting: list[asks.Task] = []

    def crew() -> None:
        """Have one place, and lose the lease after the first call."""
        nonlocal waiting
        reply: Any = None
        while True:
            match steps.send(reply):
                case Command() as command:
                    reply = app.store.run(command)  # type: ignore[arg-type]  # not an async one
                case asks.NextItems():
                    reply = list("abc")
                case asks.Begin(tasks):
                    reply = waiting.extend(tasks)
                case asks.Collect():
                    looping.stop = LeaseLost("run", token=run.token, why="superseded")
                    reply = ([asks.Ended(waiting.pop(0))], False)
                case asks.Recall():
                    reply, waiting = waiting, []

    with pytest.raises(LeaseLost):
        crew()
    assert states(app, "abc") == ["done", "absent", "absent"]


@pytest.mark.parametrize(
    "lost", ["effect_claim_many_in_run", "effect_record_many", "effect_release_many"]
)
def test_a_lost_reply_makes_nothing_unknown_and_nothing_twice(
    app: App, run: Run, lost: str
) -> None:
    mail = Mail(b=NotSent())

    with watched(app, lose=lost):
        result = run.each("abcd", mail, key=name)

    assert (result.done, result.set_aside, result.unknown) == (3, 1, 0)
    assert set(mail.sent.values()) == {1}
    assert states(app, "abcd") == ["done", "absent", "done", "done"]


def test_the_first_error_may_end_the_loop(app: App, run: Run) -> None:
    mail = Mail(b=NotSent("no route"))

    with pytest.raises(NotSent, match="no route"):
        run.each([*"abcdefgh"] * 10, mail, key=name, concurrency=1, on_error="raise")

    assert states(app, "ab") == ["done", "absent"]
    assert sum(mail.sent.values()) <= 3
    assert app.effects.unknown() == []


def test_an_unknown_item_that_ends_the_loop_makes_the_run_unknown(run: Run) -> None:
    with pytest.raises(EffectUnknown, match="timed out"):
        run.each("ab", Mail(a=TimeoutError("timed out")), key=name, on_error="raise")


def test_failed_items_may_be_left_to_the_runs_next_attempt(run: Run, again: Any) -> None:
    mail = Mail(b=NotSent("no route"))

    with pytest.raises(ItemsSetAside, match=r"1 of 3 items set aside.*digest:b") as caught:
        run.each("abc", mail, key=name, on_error="retry")
    mail.answers.clear()
    result = again().each("abc", mail, key=name, on_error="retry")

    assert isinstance(caught.value.result, EachResult)
    assert (result.done, result.skipped) == (1, 2)


def test_items_that_break_off_leave_nothing_unknown(app: App, run: Run) -> None:
    """What was begun is brought to its end before the error goes on."""

    def users() -> Iterator[str]:
        for n in range(700):
            yield f"u{n}"
        raise ConnectionError("the cursor is gone")

    mail = Mail()
    with pytest.raises(ConnectionError, match="the cursor is gone"):
        run.each(users(), mail, key=name, concurrency=5)

    assert len(mail.sent) >= 495
    assert app.effects.unknown() == []
    assert {states(app, [user])[0] for user in mail.sent} == {"done"}  # type: ignore[arg-type]


def test_the_same_item_twice_is_done_once(run: Run) -> None:
    mail = Mail()

    result = run.each([*"aabbc", *["a"] * 600], mail, key=name)

    assert (result.done, result.skipped) == (3, 602)
    assert set(mail.sent.values()) == {1}


def test_other_content_under_the_same_key_is_set_aside(run: Run, again: Any) -> None:
    """E15"""
    run.each("ab", Mail(), key=name, fingerprint=lambda user: {"total": 1})
    mail = Mail()

    result = again().each(
        "ab", mail, key=name, fingerprint=lambda user: {"total": 1 if user == "a" else 2}
    )

    assert (result.skipped, result.set_aside, mail.sent) == (1, 1, Counter())
    assert [(one.key, one.state) for one in result.items] == [("digest:b", "key reused")]


def test_a_result_that_is_no_json_has_happened_all_the_same(app: App, run: Run) -> None:
    result = run.each("a", lambda user: object(), key=name)

    assert (result.done, states(app, "a")) == (1, ["done"])


def test_items_of_a_transaction_are_done_in_it(app: App, run: Run, again: Any) -> None:
    """P4: the write and the record of it commit together, or not at all."""

    def charge(user: str, tx: Any) -> None:
        tx.execute(f"INSERT INTO {table} VALUES ('{user}')")
        if user in failing:
            raise Refused("declined")

    dialect: Any = app.store
    table = "charged" if dialect.dialect == "sqlite" else f'"{app.schema}".charged'
    failing = {"b"}
    with run.transaction() as tx:
        tx.execute(f"CREATE TABLE {table} (customer text)")

    first = run.each("abc", charge, key=name, transaction=True)
    failing.clear()
    second = again().each("abc", charge, key=name, transaction=True)

    with app.store.transaction(longest=1_000_000) as tx:  # type: ignore[arg-type]  # microseconds
        rows = tx.execute(f"SELECT customer FROM {table} ORDER BY customer").fetchall()
    assert [row[0] for row in rows] == ["a", "b", "c"]
    assert (first.done, first.set_aside, first.unknown) == (2, 1, 0)
    assert (second.done, second.skipped, second.set_aside) == (1, 2, 0)


def test_a_superseded_attempt_does_no_item_of_a_transaction(run: Run, again: Any) -> None:
    """P2, P4"""

    def charge(user: str, tx: Any) -> None:
        raise AssertionError("another attempt has the run")

    again()
    with pytest.raises(LeaseLost):
        run.each("abc", charge, key=name, transaction=True)


def one(item: Any) -> None: ...


async def aone(item: Any) -> None: ...


@pytest.mark.parametrize(
    ("items", "call", "options"),
    [
        ("ab", one, {"key": "digest"}),
        ("ab", one, {"key": name, "concurrency": 0}),
        ("ab", one, {"key": name, "concurrency": 1_001}),
        ("ab", one, {"key": name, "concurrency": True}),
        ("ab", one, {"key": name, "on_error": "ignore"}),
        (7, one, {"key": name}),
        ("ab", "one", {"key": name}),
        ("ab", lambda: None, {"key": name}),
        ("ab", aone, {"key": name}),
        ("ab", one, {"key": name, "fingerprint": 7}),
        ("ab", one, {"key": name, "if_unknown": "repeat"}),
        ("ab", one, {"key": name, "final": "Declined"}),
        ("ab", one, {"key": name, "pass_key_as": "idempotency_key"}),
        ("ab", one, {"key": name, "transaction": True}),
        ("ab", lambda item, tx: None, {"key": name, "transaction": True, "final": ValueError}),
        ("ab", one, {"key": lambda user: ""}),
        ("ab", one, {"key": lambda user: None}),
    ],
)
def test_what_cannot_be_right_is_refused_and_nothing_is_called(
    app: App, run: Run, items: Any, call: Any, options: Any
) -> None:
    """P8"""
    with watched(app) as sent, pytest.raises(UsageError):
        run.each(items, call, **options)

    assert [command.name for command in sent if command.writes] == []


def test_the_asynchronous_twin_does_the_same(app: App, run: Run, begin: Begin) -> None:
    mail = Mail(b=NotSent(), d=TimeoutError())

    async def users() -> AsyncIterator[str]:
        for user in "abcde":
            yield user

    async def send(user: str) -> str:
        await asyncio.sleep(0)
        return mail(user)

    async def scenario() -> list[EachResult]:
        arun: AsyncRun = begin(AsyncRun, takeover=True)
        return [
            await arun.each(users(), send, key=name, concurrency=2),
            await arun.each("abcf", mail, key=name),  # a sync call gets a thread
        ]

    first, second = asyncio.run(scenario())

    assert (first.done, first.set_aside, first.unknown) == (3, 1, 1)
    assert (second.done, second.skipped, second.set_aside) == (1, 2, 1)
    assert states(app, "abcdef") == ["done", "absent", "done", "unknown", "done", "done"]


def test_a_cancelled_loop_records_what_it_knows(app: App, run: Run, begin: Begin) -> None:
    """P5: calls that ended are done, calls that were cut off are unknown, the rest untouched."""
    under_way = asyncio.Event()

    async def send(user: str) -> None:
        if user == "c":
            under_way.set()
            await asyncio.Event().wait()

    async def scenario() -> None:
        arun: AsyncRun = begin(AsyncRun, takeover=True)
        loop = asyncio.ensure_future(arun.each("abcdefgh", send, key=name, concurrency=1))
        await under_way.wait()
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop

    asyncio.run(scenario())

    assert states(app, "abcdefgh") == ["done", "done", "unknown", *["absent"] * 5]


def test_a_call_that_outlives_its_cancelled_loop_is_recorded_when_it_ends(
    app: App, run: Run, begin: Begin
) -> None:
    """P5: a thread cannot be cancelled, and it knows the truth."""
    under_way, gate = threading.Event(), threading.Event()

    def send(user: str) -> str:
        under_way.set()
        assert gate.wait(20)
        return "receipt"

    async def scenario() -> None:
        arun: AsyncRun = begin(AsyncRun, takeover=True)
        loop = asyncio.ensure_future(arun.each("ab", send, key=name, concurrency=1))
        await asyncio.to_thread(under_way.wait, 20)
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
        assert states(app, "ab") == ["unknown", "absent"]
        gate.set()
        async with asyncio.timeout(20):
            while states(app, "a") != ["done"]:  # noqa: ASYNC110 - a row, and no event of ours
                await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_transactions_of_a_loop_in_a_loop(app: App, run: Run, begin: Begin) -> None:
    seen: list[str] = []

    async def charge(user: str, tx: Any) -> None:
        seen.append(user)

    async def scenario() -> list[EachResult]:
        arun: AsyncRun = begin(AsyncRun, takeover=True)
        return [await arun.each("abc", charge, key=name, transaction=True) for _ in range(2)]

    first, second = asyncio.run(scenario())

    assert (first.done, second.skipped, seen) == (3, 3, ["a", "b", "c"])
