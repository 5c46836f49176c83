"""What a guard does with a tick, asked as a hook asks, on stores of one process."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

from onejob import App, StoreUnavailable, UsageError
from onejob.commands import claims
from onejob.core import guarding
from onejob.core.guarding import Name, Tick
from onejob.core.time import HOUR, MINUTE, SECOND, Instant, Span
from onejob.errors import OutcomeUnknown
from onejob.guards import Guard
from onejob.permits import Later, Leave, Permit
from onejob.runtime.events import Event

NOW = 1_774_746_000_000_000
NIGHTLY = guarding.at(Name("test:nightly"), Instant(NOW))
HOURLY = guarding.every(Name("test:hourly"), HOUR)


class Troubled:
    """A store that fails when it is told to, before or after it has done what was asked."""

    def __init__(self, store: object) -> None:
        self._store = store
        self.before: Callable[[str], Exception | None] = lambda name: None
        self.after: Callable[[str], Exception | None] = lambda name: None

    def run(self, command: claims.Command, within: object = None) -> object:
        if error := self.before(command.name):
            raise error
        answer = self._store.run(command, within)
        if error := self.after(command.name):
            raise error
        return answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


class Replicas:
    """Guards of several replicas over one store, whose time is the test's."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.store = Troubled(app.store)
        object.__setattr__(app._services(), "store", self.store)
        self.events: list[Event] = []
        app.events.listen(self.events.append)

    def guard(self, **options: str) -> Guard:
        return Guard(self.app._services, **options)

    def pass_by(self, span: int) -> None:
        """Let the store's clock go on: what is claimed lapses that much sooner."""
        self.app.store._store.now += span

    def names(self) -> list[str]:
        return [event.name for event in self.events]


@pytest.fixture
def replicas(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    from onejob import app as module
    from onejob.stores.memory.store import MemoryStore

    class Store(MemoryStore):
        now = NOW

        def __init__(self) -> None:
            super().__init__(lambda: self.now)

    monkeypatch.setattr(module, "open_store", lambda url, schema: Store())
    app = App("memory://", lease="12s")
    yield Replicas(app)
    app.close()


def fire(guard: Guard, tick: Tick = NIGHTLY) -> bool:
    return guard.attempt(tick, lambda: None)


def down(name: str) -> Exception:
    return StoreUnavailable("nowhere", "it is down")


def test_of_two_replicas_one_fires_and_the_other_is_refused(replicas: Replicas) -> None:
    """A01"""
    one, other = replicas.guard(), replicas.guard()

    assert [fire(one), fire(other), fire(one)] == [True, False, False]
    assert (one.counts.fired, one.counts.refused) == (1, 1)
    assert (other.counts.fired, other.counts.refused) == (0, 1)


def test_each_acquisition_is_one_of_its_own_within_a_process_too(replicas: Replicas) -> None:
    """A10: one lock object, shared by threads, said that it was held already."""
    guard = replicas.guard()

    first, second = guard.ask(NIGHTLY), guard.ask(NIGHTLY)

    assert isinstance(first, Permit)
    assert isinstance(second, Later)


def test_a_tick_whose_holder_died_before_it_fired_is_taken_over(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard()
    assert isinstance(one.ask(NIGHTLY), Permit)
    waiting = other.ask(NIGHTLY)
    assert isinstance(waiting, Later)

    replicas.pass_by(waiting.wait)

    assert fire(other)
    assert other.counts.taken_over == 1


def test_a_tick_whose_holder_died_with_nobody_else_there_is_missed_and_listed(
    replicas: Replicas,
) -> None:
    one, other = replicas.guard(), replicas.guard()
    one.ask(NIGHTLY)
    assert other.missed() == []

    replicas.pass_by(13 * SECOND)

    assert [tick.key for tick in other.missed()] == [NIGHTLY.key]
    assert other.unknown() == []


def test_nobody_takes_over_before_the_lease_is_over(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard()
    one.ask(NIGHTLY)

    replicas.pass_by(11 * SECOND)

    assert isinstance(other.ask(NIGHTLY), Later)


def test_a_holder_that_was_taken_over_before_it_began_does_not_fire(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard()
    late = one.ask(NIGHTLY)
    assert isinstance(late, Permit)
    replicas.pass_by(13 * SECOND)
    assert fire(other)

    assert not one.begin(late)
    assert one.counts.refused == 1


def test_a_tick_whose_holder_died_while_it_fired_is_unknown_and_listed(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard()
    permit = one.ask(NIGHTLY)
    assert isinstance(permit, Permit)
    assert one.begin(permit)
    replicas.pass_by(13 * SECOND)

    answer = other.ask(NIGHTLY)

    assert isinstance(answer, Leave)
    assert other.counts.unknown == 1
    assert "guard.unknown" in replicas.names()
    assert [tick.key for tick in other.unknown()] == [NIGHTLY.key]


def test_an_unknown_tick_is_fired_again_where_its_user_said_so(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard(on_unknown="fire")
    permit = one.ask(NIGHTLY)
    assert isinstance(permit, Permit)
    one.begin(permit)
    assert isinstance(other.ask(NIGHTLY), Later)

    replicas.pass_by(13 * SECOND)

    assert fire(other)
    assert other.unknown() == []


def test_a_holder_that_comes_back_settles_what_was_unknown(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard()
    permit = one.ask(NIGHTLY)
    assert isinstance(permit, Permit)
    one.begin(permit)
    replicas.pass_by(13 * SECOND)

    one.done(permit)

    assert other.unknown() == []
    assert not fire(other)


def test_what_raises_while_it_fires_is_recorded_and_raised(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard()

    with pytest.raises(ZeroDivisionError):
        one.attempt(NIGHTLY, lambda: 1 / 0)

    assert one.counts.failed == 1
    assert "guard.failed" in replicas.names()
    assert not fire(other)


def test_what_raises_is_left_to_others_where_unknown_ones_fire(replicas: Replicas) -> None:
    one, other = replicas.guard(on_unknown="fire"), replicas.guard(on_unknown="fire")
    with pytest.raises(ZeroDivisionError):
        one.attempt(NIGHTLY, lambda: 1 / 0)

    assert fire(other)


def test_who_waits_is_called_back_when_the_holder_may_have_lapsed(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard()
    one.ask(NIGHTLY)

    assert not fire(other)

    assert other.room.knows(NIGHTLY.key)
    seconds = other.room.seconds()
    assert seconds is not None
    assert 12 < seconds < 14


def test_an_interval_keeps_its_distance_in_whatever_phase_replicas_ask(replicas: Replicas) -> None:
    """A23"""
    phases = [replicas.guard() for _ in range(3)]
    fired = []
    for minute in range(0, 300, 20):
        guard = phases[minute // 20 % 3]
        fired += [minute] if fire(guard, HOURLY) else []
        replicas.pass_by(20 * 60 * SECOND)

    assert fired == [0, 60, 120, 180, 240]


@pytest.mark.parametrize("mine", [True, False])
def test_a_tick_that_the_store_noted_late_does_not_cost_the_next_one(
    replicas: Replicas, mine: bool
) -> None:
    """A23: whoever of the same phase has won the late one; another phase is let in no sooner."""
    clock = SimpleNamespace(now=lambda: replicas.app.store._store.now)
    object.__setattr__(replicas.app._services(), "clock", clock)
    winner, same_phase, later = (replicas.guard() for _ in range(3))
    slow = [20 * MINUTE]

    def busy(name: str) -> None:
        replicas.pass_by(slow.pop() if name == "claim_take" and slow else 0)

    replicas.store.before = busy
    assert fire(winner, HOURLY)
    assert not fire(same_phase, replace(HOURLY, late=Span(20 * MINUTE)))
    replicas.pass_by(30 * MINUTE)
    assert not fire(later, HOURLY)
    replicas.pass_by(10 * MINUTE)

    guards = [winner, same_phase] if mine else [same_phase, winner]
    assert [fire(guard, HOURLY) for guard in guards] == [True, False]
    replicas.pass_by(59 * MINUTE)
    assert [fire(guard, HOURLY) for guard in guards] == [False, False]
    replicas.pass_by(1 * MINUTE)
    assert fire(winner, HOURLY)


def test_an_interval_does_not_wait_for_what_its_next_tick_stands_for(replicas: Replicas) -> None:
    often = guarding.every(Name("test:often"), SECOND)
    one, other = replicas.guard(), replicas.guard()
    one.ask(often)

    assert isinstance(other.ask(often), Leave)

    replicas.pass_by(SECOND)
    assert fire(other, often)


@pytest.mark.parametrize(("choice", "fires"), [("skip", False), ("fire", True)])
def test_without_the_store_a_tick_is_skipped_or_fired_as_told(
    replicas: Replicas, caplog: pytest.LogCaptureFixture, choice: str, fires: bool
) -> None:
    guard = replicas.guard(on_store_down=choice)
    replicas.store.before = down

    with caplog.at_level(logging.WARNING, "onejob"):
        assert [fire(guard), fire(guard, HOURLY)] == [fires, fires]

    said = [r for r in caplog.records if "the store is away" in r.message]
    assert len(said) == 1, "once an outage"
    assert guard.counts.skipped_store_down == (0 if fires else 2)
    assert guard.counts.fired_store_down == (2 if fires else 0)
    assert replicas.names().count("guard.store_down") == 2


def test_the_end_of_an_outage_is_said_and_ticks_are_guarded_again(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    guard, other = replicas.guard(on_store_down="fire"), replicas.guard()
    replicas.store.before = down
    fire(guard)
    replicas.store.before = lambda name: None
    caplog.clear()

    with caplog.at_level(logging.WARNING, "onejob"):
        assert fire(guard)

    assert not fire(other)
    assert ["the store is back" in r.message for r in caplog.records] == [True]


def test_who_waits_for_another_does_not_fire_because_the_store_went_away(
    replicas: Replicas,
) -> None:
    one, other = replicas.guard(), replicas.guard(on_store_down="fire")
    one.ask(NIGHTLY)
    fire(other)
    replicas.store.before = down

    assert not fire(other)
    assert other.room.knows(NIGHTLY.key)


@pytest.mark.parametrize("command", ["claim_take", "claim_mark", "claim_end"])
def test_a_lost_reply_fires_once_and_leaves_nothing_open(replicas: Replicas, command: str) -> None:
    one, other = replicas.guard(), replicas.guard()
    lost = iter([OutcomeUnknown(command, "nowhere", "the line was cut")])
    replicas.store.after = lambda name: next(lost, None) if name == command else None
    fired: list[str] = []

    assert one.attempt(NIGHTLY, lambda: fired.append("one"))
    assert not other.attempt(NIGHTLY, lambda: fired.append("other"))

    assert fired == ["one"]
    assert [row.state for row in replicas.app.store.run(claims.listed(claims.TICK))] == ["done"]


def test_a_store_that_fails_just_before_firing_leaves_the_tick_to_others(
    replicas: Replicas,
) -> None:
    one, other = replicas.guard(), replicas.guard()
    replicas.store.before = lambda name: down(name) if name == "claim_mark" else None
    assert not fire(one)
    replicas.store.before = lambda name: None
    assert isinstance(other.ask(NIGHTLY), Later)

    replicas.pass_by(13 * SECOND)

    assert fire(other)


def test_an_end_that_cannot_be_recorded_at_once_is_recorded_later(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    guard, other = replicas.guard(), replicas.guard()
    replicas.store.before = lambda name: down(name) if name == "claim_end" else None

    with caplog.at_level(logging.WARNING, "onejob"):
        assert fire(guard)

    assert "recorded when the store is back" in caplog.text
    deadline = time.monotonic() + 5
    while not isinstance(other.ask(NIGHTLY), Leave):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert other.counts.unknown == 0


class Still:
    """A clock that stands, and then jumps by what it is told with each look."""

    def __init__(self, *jumps: int) -> None:
        self._now, self._jumps = 0, list(jumps)

    def now(self) -> int:
        self._now += self._jumps.pop(0) if self._jumps else 0
        return self._now


def test_whoever_stood_still_while_it_began_says_so_anew_before_it_fires(
    replicas: Replicas,
) -> None:
    """It may have been frozen for longer than its lease between question and answer."""
    guard = replicas.guard(on_unknown="fire")
    object.__setattr__(replicas.app._services(), "clock", Still(0, 13 * SECOND))
    asked: list[str] = []
    replicas.store.before = asked.append

    assert fire(guard)

    assert asked.count("claim_mark") == 2


def test_whoever_finds_itself_taken_over_after_standing_still_does_not_fire(
    replicas: Replicas,
) -> None:
    one, other = replicas.guard(on_unknown="fire"), replicas.guard(on_unknown="fire")
    object.__setattr__(replicas.app._services(), "clock", Still(0, 13 * SECOND))
    permit = one.ask(NIGHTLY)
    assert isinstance(permit, Permit)

    def frozen(name: str) -> None:
        if name == "claim_mark":
            replicas.store.after = lambda name: None
            replicas.pass_by(13 * SECOND)
            assert isinstance(other.ask(NIGHTLY), Permit)

    replicas.store.after = frozen

    assert not one.begin(permit)


def test_whoever_always_gets_its_answers_too_late_leaves_the_tick_to_others(
    replicas: Replicas,
) -> None:
    one, other = replicas.guard(), replicas.guard()
    clock = replicas.app._services().clock
    object.__setattr__(replicas.app._services(), "clock", Still(*[13 * SECOND] * 20))
    assert not fire(one)
    object.__setattr__(replicas.app._services(), "clock", clock)

    assert fire(other)


def test_a_fleet_of_guards_alone_forgets_what_is_past_its_time(replicas: Replicas) -> None:
    """There may be no replica that purges."""
    guard = replicas.guard()
    fire(guard)
    replicas.pass_by(3 * 24 * 3_600 * SECOND)

    for n in range(20):
        fire(guard, guarding.at(Name("test:minutely"), Instant(NOW + n * MINUTE)))

    rows = replicas.app.store.run(claims.listed(claims.TICK, scope=NIGHTLY.schedule))
    assert rows == ()


def test_a_held_tick_is_renewed_until_its_end(replicas: Replicas) -> None:
    guard = replicas.guard()
    renewer = replicas.app._services().renewer

    permit = guard.admit(NIGHTLY, lambda: None, hold=True)
    assert permit is not None
    held = list(renewer._held.values())
    guard.done(permit)

    assert [one.what for one in held] == [f"tick {NIGHTLY.key}"]
    assert renewer._held == {}


def test_a_disabled_guard_fires_nothing_and_asks_nobody(replicas: Replicas) -> None:
    guard = Guard(replicas.app._services, disabled=True)
    replicas.store.before = down

    assert not fire(guard)
    assert guard.counts.disabled == 1


def test_a_forked_child_waits_for_nothing_of_its_parents(replicas: Replicas) -> None:
    one, other = replicas.guard(), replicas.guard()
    one.ask(NIGHTLY)
    fire(other)

    other.after_fork(os.getpid())

    assert len(other.room) == 0
    assert other.counts.waited == 0


@pytest.mark.parametrize("option", ["on_store_down", "on_unknown"])
def test_a_choice_that_is_none_is_refused(replicas: Replicas, option: str) -> None:
    with pytest.raises(UsageError, match=f"{option}='maybe' must be 'skip' or 'fire'"):
        replicas.guard(**{option: "maybe"})


def test_what_a_guard_counted_is_in_what_it_prints(replicas: Replicas) -> None:
    guard = replicas.guard()
    assert repr(guard) == "<Guard without a tick so far>"

    fire(guard)

    assert repr(guard) == "<Guard fired=1>"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sqlite", "postgresql", "redis"])
def test_every_store_guards_alike(place: str, request: pytest.FixtureRequest) -> None:
    if place == "sqlite":
        app = App(request.getfixturevalue("sqlite_url"), lease="1s")
    elif place == "redis":
        url, schema = (request.getfixturevalue(n) for n in ("redis_url", "redis_schema"))
        app = App(url, schema=schema, lease="1s")
    else:
        url, schema = (request.getfixturevalue(n) for n in ("postgres_url", "schema"))
        app = App(url, schema=schema, lease="1s")
    if place != "redis":
        app.store.init()
    one, other = Guard(app._services), Guard(app._services)
    try:
        assert [fire(one), fire(other)] == [True, False]
        assert [fire(other, HOURLY), fire(one, HOURLY)] == [True, False]
        left = one.ask(guarding.at(Name("test:left"), Instant(NOW)))
        assert isinstance(left, Permit)
        assert one.begin(left)
        waiting = other.ask(left.tick)
        assert isinstance(waiting, Later)
        time.sleep(waiting.wait / SECOND)
        assert isinstance(other.ask(left.tick), Leave)
        assert [tick.key for tick in other.unknown()] == [left.tick.key]
        one._tidy()
    finally:
        app.close()
