"""Effects: every way through the procedure, on real stores."""

from __future__ import annotations

import asyncio
import random
import socket
import string
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Begin
from onejob import (
    App,
    AsyncRun,
    Done,
    Effect,
    EffectFailed,
    EffectUnknown,
    Failed,
    InProgress,
    KeyReused,
    LeaseLost,
    NotSent,
    Redo,
    Refused,
    Run,
    Unknown,
    UsageError,
)
from onejob.core.keys import provider_key


class Declined(Exception):
    """The provider says no, for good."""


class Provider:
    """Counts what it was asked; each call ends as ``answers`` says, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.keys: list[str | None] = []

    def __call__(self, amount: int = 1, *, idempotency_key: str | None = None) -> Any:
        self.keys.append(idempotency_key)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def calls(self) -> int:
        return len(self.keys)


REPEAT: dict[str, Any] = {
    "if_unknown": "repeat",
    "pass_key_as": "idempotency_key",
    "provider_keeps": "24h",
}


@pytest.fixture
def run(app: App, begin: Begin) -> Run:
    @app.job()
    def bill() -> None: ...

    bill.using(key="2026-03").enqueue()
    started: Run = begin()
    return started


@pytest.fixture
def again(begin: Begin, run: Run) -> Callable[[], Run]:
    """The next attempt of the same run, by another replica."""

    def again() -> Run:
        newer: Run = begin(takeover=True)
        assert newer.id == run.id
        return newer

    return again


def state_of(app: App, key: str = "charge", scope: str = "bill/2026-03") -> str:
    effect = app.effects.get(scope, key)
    return "absent" if effect is None else effect.state


def test_a_repeat_returns_the_recorded_result(app: App, run: Run, again: Any) -> None:
    provider = Provider({"receipt": "r-1"})

    first = run.effect("charge", provider, 100)
    same_attempt = run.effect("charge", provider, 100)
    next_attempt = again().effect("charge", provider, 100)

    assert first == same_attempt == next_attempt == {"receipt": "r-1"}
    assert provider.calls == 1
    assert state_of(app) == "done"


@dataclass
class Receipt:
    number: int


def test_a_result_comes_back_as_its_hint_says(run: Run, again: Any) -> None:
    def charge() -> Receipt:
        return Receipt(7)

    assert run.effect("charge", charge) == Receipt(7)
    assert again().effect("charge", charge) == Receipt(7)


def test_a_result_that_does_not_fit_its_hint_comes_as_it_was_recorded(app: App, run: Run) -> None:
    """A person's word, an older release's, or a hint that is not true."""

    def charge() -> None:
        raise TimeoutError

    def lies() -> int:
        return "text"  # type: ignore[return-value]  # the mistake under test

    with pytest.raises(EffectUnknown):
        run.effect("charge", charge)
    app.effects.resolve("bill/2026-03", "charge", "done", result={"receipt": "r-1"})

    assert run.effect("charge", charge) == {"receipt": "r-1"}
    assert [run.effect("lies", lies), run.effect("lies", lies)] == ["text", "text"]


def test_a_result_that_is_no_json_is_said_after_it_is_recorded(app: App, run: Run) -> None:
    provider = Provider(object())

    with pytest.raises(UsageError, match="has happened and is recorded as done, without its"):
        run.effect("charge", provider)

    assert run.effect("charge", provider) is None
    assert provider.calls == 1
    assert state_of(app) == "done"


def test_other_content_under_the_same_key_is_refused(run: Run) -> None:
    """E15, E17: nothing is executed and no stored result is returned; order does not matter."""
    provider = Provider("r-1")
    run.effect("charge", provider, fingerprint={"a": 1, "b": 2})

    assert run.effect("charge", provider, fingerprint={"b": 2, "a": 1}) == "r-1"
    with pytest.raises(KeyReused):
        run.effect("charge", provider, fingerprint={"a": 1, "b": 3})
    assert provider.calls == 1


def test_other_content_is_told_before_in_progress(app: App) -> None:
    """E16, E05: a mismatch during the call is not reported as work in progress."""
    seen: list[Any] = []

    def charge() -> str:
        for content in (100, 200):
            with pytest.raises(Refused) as caught:
                app.effect("order", "7", charge, fingerprint=content)
            seen.append(caught.value)
        return "r-1"

    assert app.effect("order", "7", charge, fingerprint=100) == "r-1"
    assert [type(error) for error in seen] == [InProgress, KeyReused]
    assert 0 <= seen[0].age_seconds < 60


def test_an_attempt_does_not_call_one_effect_beside_itself(run: Run) -> None:
    def charge() -> None:
        run.effect("charge", charge)

    with pytest.raises(EffectUnknown) as caught:
        run.effect("charge", charge)

    assert isinstance(caught.value.__cause__, InProgress)


@pytest.mark.parametrize(
    "error",
    [
        NotSent("no route"),
        ConnectionRefusedError(111, "refused"),
        socket.gaierror(-2, "unknown name"),
    ],
)
def test_what_was_not_sent_is_released_and_may_be_tried_again(
    app: App, run: Run, error: Exception
) -> None:
    """E13: nobody was reached, so nothing is unknown."""
    provider = Provider(error, "r-1")

    with pytest.raises(type(error)):
        run.effect("charge", provider)
    released = state_of(app)

    assert released == "absent"
    assert run.effect("charge", provider) == "r-1"


def test_a_refused_connection_among_the_causes_proves_nothing(app: App, run: Run) -> None:
    """E13: it may have been the second request, after a first one that went out."""

    def charge() -> None:
        raise OSError("request failed") from ConnectionRefusedError(111, "refused")

    with pytest.raises(EffectUnknown, match="request failed"):
        run.effect("charge", charge)

    assert state_of(app) == "unknown"


def test_a_call_that_only_makes_a_coroutine_has_sent_nothing(app: App, run: Run) -> None:
    async def send() -> None: ...

    with pytest.raises(NotSent, match="nothing awaited it"):
        run.effect("charge", lambda: send())

    assert state_of(app) == "absent"


def test_a_key_of_first_is_no_effect_that_was_called(app: App, run: Run) -> None:
    with run.transaction() as tx:
        assert run.first("charge", within=tx)

    with pytest.raises(UsageError, match=r"used with first\(\)"):
        run.effect("charge", lambda: None)


def test_a_final_refusal_is_recorded_and_said_again(app: App, run: Run, again: Any) -> None:
    provider = Provider(Declined("card expired"))

    with pytest.raises(Declined):
        run.effect("charge", provider, final=Declined)
    with pytest.raises(EffectFailed, match="card expired"):
        again().effect("charge", provider, final=Declined)

    assert provider.calls == 1
    assert state_of(app) == "failed"


def test_an_unclear_end_is_unknown_and_is_not_repeated(app: App, run: Run, again: Any) -> None:
    """E11, E18: nobody knows whether money moved, so nobody guesses."""
    provider = Provider(TimeoutError("read timed out"))

    with pytest.raises(EffectUnknown) as caught:
        run.effect("charge", provider)
    with pytest.raises(EffectUnknown):
        run.effect("charge", provider)
    with pytest.raises(EffectUnknown):
        again().effect("charge", provider)

    assert isinstance(caught.value.__cause__, TimeoutError)
    assert caught.value.provider_key == provider_key("shop", "bill/2026-03", "charge")
    assert provider.calls == 1
    age_claims(app, seconds=3_600)
    [unknown] = app.effects.unknown()
    assert unknown.key == "charge"
    assert timedelta(hours=1) <= unknown.age < timedelta(hours=2)


def test_repeat_comes_later_and_with_the_same_key(app: App, run: Run, again: Any) -> None:
    """E12, E18: the first error goes to the retry policy; the provider tells the two apart."""
    provider = Provider(TimeoutError("read timed out"), "r-1")

    with pytest.raises(TimeoutError):
        run.effect("charge", provider, **REPEAT)
    unknown = state_of(app)
    result = again().effect("charge", provider, **REPEAT)

    assert (unknown, result, state_of(app)) == ("unknown", "r-1", "done")
    assert provider.keys == [provider_key("shop", "bill/2026-03", "charge")] * 2


def test_a_repeat_that_was_not_sent_leaves_the_first_call_unknown(
    app: App, run: Run, again: Any
) -> None:
    provider = Provider(TimeoutError(), NotSent(), "r-1")

    with pytest.raises(TimeoutError):
        run.effect("charge", provider, **REPEAT)
    with pytest.raises(NotSent):
        again().effect("charge", provider, **REPEAT)

    assert state_of(app) == "unknown"


def test_repeat_ends_when_the_provider_forgets_its_keys(app: App, run: Run, again: Any) -> None:
    provider = Provider(TimeoutError(), "r-1")
    short = {**REPEAT, "provider_keeps": "1s"}

    with pytest.raises(TimeoutError):
        run.effect("charge", provider, **short)
    age_claims(app, seconds=2)
    with pytest.raises(EffectUnknown, match="longer ago than the provider remembers"):
        again().effect("charge", provider, **short)

    assert provider.calls == 1


@pytest.mark.parametrize(
    ("resolution", "outcome", "state", "calls"),
    [
        (Done("r-0"), "r-0", "done", 1),
        (Redo(), "r-1", "done", 2),
        (Failed("declined"), EffectFailed, "failed", 1),
        (Unknown(), EffectUnknown, "unknown", 1),
        ("no resolution", EffectUnknown, "unknown", 1),
        (OSError("the provider is down"), OSError, "unknown", 1),
    ],
)
def test_a_resolver_settles_what_is_unknown(
    app: App, run: Run, again: Any, resolution: Any, outcome: Any, state: str, calls: int
) -> None:
    provider = Provider(TimeoutError(), "r-1")
    asked: list[Effect] = []

    def resolver(effect: Effect) -> Any:
        asked.append(effect)
        if isinstance(resolution, Exception):
            raise resolution
        return resolution

    with pytest.raises(TimeoutError):
        run.effect("charge", provider, if_unknown=resolver)
    before = list(asked)
    if isinstance(outcome, str):
        assert again().effect("charge", provider, if_unknown=resolver) == outcome
    else:
        with pytest.raises(outcome):
            again().effect("charge", provider, if_unknown=resolver)

    assert before == []
    assert asked[0].provider_key == provider_key("shop", "bill/2026-03", "charge")
    assert (state_of(app), provider.calls) == (state, calls)


def test_a_dead_attempts_claim_is_settled_by_the_next(app: App, run: Run, again: Any) -> None:
    """E24: killed between the call and its record."""

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.effect("charge", die)
    claimed = state_of(app)
    working = app.effects.unknown()
    newer = again()
    with pytest.raises(EffectUnknown, match="its caller died"):
        newer.effect("charge", die)

    assert (claimed, working) == ("claimed", [])
    assert [effect.key for effect in app.effects.unknown()] == ["charge"]


def test_a_superseded_attempt_records_what_it_knows(app: App, run: Run, again: Any) -> None:
    """P5: nobody has reclaimed it, and only this attempt knows the truth."""
    result = run.effect("charge", lambda: (again(), "r-1")[1])

    assert result == "r-1"
    assert state_of(app) == "done"


def test_after_a_reclaim_the_first_caller_is_refused_and_heard(
    app: App, run: Run, again: Any
) -> None:
    heard: list[Any] = []
    app.events.listen(heard.append)

    def slow(*, idempotency_key: str) -> str:
        newer = again()
        assert newer.effect("charge", Provider("r-2"), **REPEAT) == "r-2"
        return "r-1"

    with pytest.raises(LeaseLost, match="took it over during the call, which ended done"):
        run.effect("charge", slow, **REPEAT)

    effect = app.effects.get("bill/2026-03", "charge")
    assert effect is not None
    assert (effect.state, effect.result) == ("done", "r-2")
    assert [event.name for event in heard if event.name == "effect.superseded"]


def test_a_superseded_attempt_that_would_repeat_calls_nobody(
    app: App, run: Run, again: Any
) -> None:
    """It read the entry before it was superseded; the reclaim is checked under the run's row."""
    provider = Provider(TimeoutError(), "r-1")
    with pytest.raises(TimeoutError):
        run.effect("charge", provider, **REPEAT)
    again()

    with pytest.raises(LeaseLost):
        run.effect("charge", provider, **REPEAT)

    assert provider.calls == 1
    assert state_of(app) == "unknown"


def test_a_claim_outside_a_run_lapses_at_its_time(app: App) -> None:
    provider = Provider(KeyboardInterrupt(), "r-1")

    with pytest.raises(KeyboardInterrupt):
        app.effect("order", "7", provider, claim_for="1s", **REPEAT)
    with pytest.raises(InProgress):
        app.effect("order", "7", provider, claim_for="1s", **REPEAT)
    age_claims(app, seconds=2)

    assert app.effect("order", "7", provider, claim_for="1s", **REPEAT) == "r-1"


@pytest.mark.parametrize(
    ("answer", "state", "calls"),
    [("done", "done", 1), ("redo", "done", 2), ("failed", "failed", 1)],
)
def test_a_person_may_say_what_happened(
    app: App, run: Run, again: Any, answer: Any, state: str, calls: int
) -> None:
    provider = Provider(TimeoutError(), "r-1")
    with pytest.raises(EffectUnknown):
        run.effect("charge", provider)

    app.effects.resolve(
        "bill/2026-03", "charge", answer, result="r-0" if answer == "done" else None
    )

    newer = again()
    if answer == "failed":
        with pytest.raises(EffectFailed):
            newer.effect("charge", provider)
    else:
        assert newer.effect("charge", provider) == ("r-0" if answer == "done" else "r-1")
    assert (state_of(app), provider.calls) == (state, calls)


def test_what_is_settled_stays_unless_it_is_to_be_redone(app: App) -> None:
    with pytest.raises(Declined):
        app.effect("order", "7", Provider(Declined()), final=Declined)
    app.effect("order", "8", Provider("r-1"))

    assert app.effects.resolve("order", "7", "redo") is None
    assert app.effect("order", "7", Provider("r-2")) == "r-2"
    with pytest.raises(Refused, match="is settled: done"):
        app.effects.resolve("order", "8", "redo")
    with pytest.raises(LookupError):
        app.effects.resolve("order", "9", "done")
    with pytest.raises(UsageError):
        app.effects.resolve("order", "8", "perhaps")  # type: ignore[arg-type]  # under test
    with pytest.raises(UsageError):
        app.effects.resolve("order", "8", "redo", result=1)


def sent(user: int) -> int:
    return user


async def asent(user: int) -> int:
    return user


@pytest.mark.parametrize(
    ("key", "call", "args", "options"),
    [
        ("", sent, (1,), {}),
        (" \u200b", sent, (1,), {}),
        ("k" * 1_025, sent, (1,), {}),
        (None, sent, (1,), {}),
        ("k", sent(1), (), {}),
        ("k", sent, (), {}),
        ("k", sent, (1,), {"pass_key_as": "idempotency_key"}),
        ("k", sent, (1,), {"if_unknown": "repeat"}),
        ("k", sent, (1,), {"if_unknown": "repeat", "pass_key_as": "user"}),
        ("k", sent, (1,), {"if_unknown": "perhaps"}),
        ("k", sent, (1,), {"provider_keeps": "a day"}),
        ("k", sent, (1,), {"final": "Declined"}),
        ("k", sent, (1,), {"fingerprint": object()}),
        ("k", sent, (), {"user": 1, "pass_key_as": "user"}),
        ("k", asent, (1,), {}),
    ],
)
def test_a_bad_effect_is_refused_before_any_io(
    key: Any, call: Any, args: Any, options: Any
) -> None:
    """E12, E14 and P8: the store's host does not even exist."""
    app = App("postgresql://nobody.invalid/shop")

    with pytest.raises(UsageError):
        app.effect("order", key, call, *args, **options)


def test_the_async_twins_do_the_same(app: App, run: Run, begin: Begin) -> None:
    arun: AsyncRun = begin(AsyncRun, takeover=True)
    provider = Provider(TimeoutError(), "r-1")

    async def acharge(*, idempotency_key: str) -> Any:
        return provider(idempotency_key=idempotency_key)

    async def aresolver(effect: Effect) -> Any:
        return Redo()

    async def scenario() -> list[Any]:
        with pytest.raises(TimeoutError):
            await arun.effect("charge", acharge, **REPEAT)
        asked = {"if_unknown": aresolver, "pass_key_as": "idempotency_key"}
        return [
            await arun.effect("charge", acharge, **asked),
            await arun.effect("charge", provider),
            await arun.effect("print", lambda: "in a thread"),
            await app.aeffect("order", "7", asent, 7),
            (await app.effects.aget("order", "7")).result,  # type: ignore[union-attr]
            await app.effects.aunknown(),
        ]

    assert asyncio.run(scenario()) == ["r-1", "r-1", "in a thread", 7, 7, []]
    assert provider.calls == 2


def age_claims(app: App, *, seconds: int) -> None:
    """Make every claim in the ledger look older, as the store's clock would."""
    span = seconds * 1_000_000
    with app.store.transaction(longest=1_000_000) as connection:  # type: ignore[arg-type]
        table = "onejob_ledger" if app.store.dialect == "sqlite" else f'"{app.schema}".ledger'
        connection.execute(
            f"UPDATE {table} SET claimed = claimed - {span}, claim_until = claim_until - {span}"
        )


@pytest.mark.parametrize("answer", ["done", "redo", "failed"])
def test_no_word_on_an_effect_whose_call_is_under_way(app: App, run: Run, answer: Any) -> None:
    """ "redo" of a call in flight would make it happen twice."""
    refused: list[str] = []

    def charge() -> str:
        for scope in ("bill/2026-03", "order"):
            with pytest.raises(InProgress, match="in progress"):
                app.effects.resolve(scope, "charge", answer)
            refused.append(scope)
        assert app.effects.unknown() == []
        return "r-1"

    app.effect("order", "charge", lambda: run.effect("charge", charge))

    assert refused == ["bill/2026-03", "order"]
    assert state_of(app) == state_of(app, scope="order") == "done"


def test_a_claim_of_a_superseded_attempt_may_be_settled(app: App, run: Run, again: Any) -> None:
    def charge() -> str:
        again()
        app.effects.resolve("bill/2026-03", "charge", "done", result="r-2")
        return "r-1"

    with pytest.raises(LeaseLost):
        run.effect("charge", charge)

    effect = app.effects.get("bill/2026-03", "charge")
    assert effect is not None
    assert effect.result == "r-2"


@pytest.mark.parametrize("longest", [("j" * 1_024, "\U0001f511" * 256), ("j", "k")])
def test_every_legal_name_of_a_run_has_room_for_effects(
    app: App, begin: Begin, longest: tuple[str, str]
) -> None:
    """P8: what no index can hold is refused before any I/O, and the rest works in every store."""
    name, key = longest
    app.job(name=name)(lambda: None).using(key=key).enqueue()
    run: Run = begin()
    scope = f"{name}/{key}"
    fits = random_text(min(1_024, 2_500 - len(scope.encode())))

    with pytest.raises(UsageError, match=r"2,5\d\d bytes of UTF-8 together|1,025 bytes"):
        run.effect(fits + "x", Provider(1))
    with pytest.raises(EffectUnknown):
        run.effect(fits, Provider(TimeoutError()))

    assert state_of(app, fits, scope) == "unknown"
    app.effects.resolve(scope, fits, "done", result="r-1")
    assert run.effect(fits, Provider(2)) == "r-1"
    with transaction_of(app) as connection:
        assert run.first(fits[::-1], within=connection)
        with pytest.raises(UsageError, match=r"together|1,025 bytes"):
            run.first(fits + "x", within=connection)


def test_a_scope_is_a_name_or_a_jobs_and_a_runs() -> None:
    app = App("postgresql://nobody.invalid/shop")

    for scope in ("s" * 1_025, f"{'j' * 1_025}/k", f"j/{'k' * 1_025}", "", "s ", None):
        bad: Any = scope
        with pytest.raises(UsageError):
            app.effects.get(bad, "charge")


def random_text(size: int) -> str:
    """Text that no store can compress."""
    return "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=size))


def transaction_of(app: App) -> Any:
    return app.store.transaction(longest=1_000_000)  # type: ignore[arg-type]  # microseconds
