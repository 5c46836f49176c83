"""The renewer: what it asks, what it makes of the answers, and whom it tells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

from onejob.commands.command import Command
from onejob.core.lease import margin, renew_every
from onejob.core.time import SECOND, Span
from onejob.errors import LeaseLost, StoreUnavailable
from onejob.runtime import renewer as module
from onejob.runtime.clock import SystemClock
from onejob.runtime.events import Events
from onejob.runtime.renewer import Held, Renewer, _Line

T = TypeVar("T")
TTL = Span(12 * SECOND)


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = 1_000 * SECOND

    def now(self) -> int:
        return self.at

    async def sleep(self, span: int) -> None:
        raise AssertionError("nobody sleeps here")


class FakeLane:
    """A lane that answers with ``holders``; what was asked is in ``asked``."""

    def __init__(self, patience: Span = TTL) -> None:
        self.patience = patience
        self.asked: list[list[str]] = []
        self.holders: frozenset[str] | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        self.trouble: Exception | None = None
        self.closed = False

    def run(self, command: Command[T]) -> T:
        owners = [str(owner) for owner in str(command.parameters["owners"]).split()]
        self.asked.append(owners)
        self.meanwhile()
        if self.trouble is not None:
            raise self.trouble
        rows = [(owner,) for owner in owners if self.holders is None or owner in self.holders]
        return command.decode(rows)

    def listen(self) -> bool:
        return False

    def fileno(self) -> int | None:
        return None

    def hinted(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


def renew(batch: Iterable[tuple[Any, Span]]) -> Command[frozenset[str]]:
    owners = " ".join(grip for grip, _ in batch)
    return Command("renew", {"owners": owners}, lambda rows: frozenset(row[0] for row in rows))


def renew_others(batch: Iterable[tuple[Any, Span]]) -> Command[frozenset[str]]:
    return renew(batch)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def lane() -> FakeLane:
    return FakeLane()


@pytest.fixture
def events() -> list[tuple[str, Any]]:
    return []


@pytest.fixture
def renewer(clock: HandClock, events: list[tuple[str, Any]]) -> Renewer:
    """A renewer whose threads never begin: its steps are called one by one."""
    listened = Events()
    listened.listen(lambda event: events.append((event.name, event.fields)))
    made = Renewer(FakeLane, clock=clock, events=listened)
    made._crew = object()
    return made


def held(clock: HandClock, owner: str = "a", ttl: Span = TTL, **more: Any) -> Held:
    more = {"renew": renew, "token": 7, "what": f"lock {owner!r}", **more}
    return Held(owner, owner=owner, ttl=ttl, asked_at=clock.now(), **more)


def send(renewer: Renewer, lane: FakeLane) -> None:
    renewer._renew_due(_Line(lambda patience: lane))


def test_all_that_is_due_is_renewed_by_one_command_of_each_kind(
    renewer: Renewer, clock: HandClock, lane: FakeLane
) -> None:
    for n in range(30):
        renewer.hold(held(clock, f"lock-{n}"))
    renewer.hold(held(clock, "claim", renew=renew_others))
    clock.at += renew_every(TTL)
    renewer.hold(held(clock, "fresh"))

    send(renewer, lane)

    assert sorted(map(len, lane.asked)) == [1, 30]
    assert ["claim"] in lane.asked


def test_what_is_nearly_due_comes_along(renewer: Renewer, clock: HandClock, lane: FakeLane) -> None:
    renewer.hold(held(clock, "first"))
    clock.at += renew_every(TTL) // 2 - 1
    renewer.hold(held(clock, "second"))
    clock.at += renew_every(TTL) // 2 + 1

    send(renewer, lane)

    assert lane.asked == [["first", "second"]]


def test_a_large_batch_is_sent_in_parts(
    renewer: Renewer, clock: HandClock, lane: FakeLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 10)
    for n in range(25):
        renewer.hold(held(clock, f"lock-{n}"))
    clock.at += TTL // 2

    send(renewer, lane)

    assert [len(owners) for owners in lane.asked] == [10, 10, 5]


def test_a_renewal_counts_from_before_it_was_asked_for(
    renewer: Renewer, clock: HandClock, lane: FakeLane
) -> None:
    """P6: the reply may have taken most of the lease."""
    one = held(clock)
    renewer.hold(one)
    clock.at += renew_every(TTL)
    asked_at = clock.at
    lane.meanwhile = lambda: setattr(clock, "at", clock.at + 2 * SECOND)

    send(renewer, lane)

    assert one.deadline == asked_at + TTL - margin(TTL)
    assert one.renew_at == asked_at + renew_every(TTL)


def test_a_reply_after_the_deadline_brings_nothing_back(
    renewer: Renewer, clock: HandClock, lane: FakeLane
) -> None:
    """P6, C19: its body may have been told already, and somebody else may hold it."""
    one = held(clock)
    renewer.hold(one)
    clock.at += renew_every(TTL)
    lane.meanwhile = lambda: setattr(clock, "at", one.deadline)

    send(renewer, lane)

    assert one.lost
    with pytest.raises(LeaseLost, match="in time"):
        one.check(clock.now())


def test_what_the_store_does_not_confirm_is_lost_and_the_rest_is_not(
    renewer: Renewer, clock: HandClock, lane: FakeLane
) -> None:
    """C06"""
    mine, gone = held(clock, "mine"), held(clock, "gone")
    renewer.hold(mine)
    renewer.hold(gone)
    clock.at += renew_every(TTL)
    lane.holders = frozenset({"mine"})

    send(renewer, lane)

    assert (mine.lost, bool(gone.lost)) == ("", True)
    assert renewer._next_lost(renewer._crew or object()) is gone


def test_what_was_dropped_while_it_was_renewed_is_not_lost(
    renewer: Renewer, clock: HandClock, lane: FakeLane
) -> None:
    one = held(clock)
    renewer.hold(one)
    clock.at += renew_every(TTL)
    lane.meanwhile = lambda: renewer.drop(one)
    lane.holders = frozenset()

    send(renewer, lane)

    assert one.lost == ""
    assert renewer._lost == []


def test_a_renewal_that_fails_is_tried_again_soon_and_told(
    renewer: Renewer, clock: HandClock, lane: FakeLane, events: list[tuple[str, Any]]
) -> None:
    one = held(clock)
    deadline = one.deadline
    renewer.hold(one)
    clock.at += renew_every(TTL)
    lane.trouble = StoreUnavailable("here", "a test")

    send(renewer, lane)

    assert (one.lost, one.deadline) == ("", deadline)
    assert one.renew_at == clock.at + TTL // 12
    assert [name for name, _ in events] == ["store.trouble"]


def test_any_other_error_is_told_too_and_ends_nothing(
    renewer: Renewer, clock: HandClock, lane: FakeLane, events: list[tuple[str, Any]]
) -> None:
    renewer.hold(held(clock))
    clock.at += renew_every(TTL)
    lane.trouble = RuntimeError("nobody foresaw this")

    send(renewer, lane)
    lane.trouble = None
    clock.at += TTL // 12
    send(renewer, lane)

    assert [name for name, _ in events] == ["loop.error"]
    assert len(lane.asked) == 2


def test_a_holder_knows_by_its_own_clock_that_its_lease_is_over(clock: HandClock) -> None:
    """P6: before anybody could tell it, the store included."""
    one = held(clock)
    clock.at = one.deadline - 1
    one.check(clock.now())
    clock.at += 1

    with pytest.raises(LeaseLost, match="in time"):
        one.check(clock.now())


def test_what_is_past_its_deadline_is_not_renewed(
    renewer: Renewer, clock: HandClock, lane: FakeLane
) -> None:
    one = held(clock)
    renewer.hold(one)
    clock.at = one.deadline

    send(renewer, lane)

    assert lane.asked == []
    assert renewer._next_lost(renewer._crew or object()) is one


def test_a_release_is_sent_until_it_is_answered_or_its_lease_is_over(
    renewer: Renewer, clock: HandClock, lane: FakeLane
) -> None:
    """C18"""
    line = _Line(lambda patience: lane)
    renewer.release_later(renew([("a", TTL)]), ttl=TTL)
    lane.trouble = StoreUnavailable("here", "a test")
    renewer._pay_due(line)
    clock.at += TTL // 12
    lane.trouble = None
    renewer._pay_due(line)
    renewer._pay_due(line)
    assert lane.asked == [["a"], ["a"]]

    lane.trouble = StoreUnavailable("here", "a test")
    renewer.release_later(renew([("b", TTL)]), ttl=TTL)
    for _ in range(20):
        renewer._pay_due(line)
        clock.at += TTL // 12
    assert len(lane.asked) == 2 + 12


def test_the_lane_is_opened_anew_where_the_haste_is_another() -> None:
    lanes: list[FakeLane] = []

    def opened(patience: Span) -> FakeLane:
        lanes.append(FakeLane(patience))
        return lanes[-1]

    line = _Line(opened)
    for patience in (9, 12, 3, 9):
        line.run(renew([]), patience=Span(patience))

    assert [lane.patience for lane in lanes] == [9, 3, 9]
    assert [lane.closed for lane in lanes] == [True, True, False]


def test_a_callback_that_hangs_or_raises_keeps_nobody_elses_lease_from_being_renewed() -> None:
    events, clock = Events(), SystemClock()
    lane, goes_on, told = FakeLane(), threading.Event(), threading.Event()
    renewer = Renewer(lambda patience: lane, clock=clock, events=events)
    ttl = Span(1 * SECOND)

    def one(owner: str, on_lost: Callable[[Held], object]) -> Held:
        return Held(owner, owner=owner, token=1, ttl=ttl, asked_at=clock.now(), renew=renew,
                    what=owner, on_lost=on_lost)  # fmt: skip

    def hang(_: Held) -> None:
        told.set()
        goes_on.wait(10)
        raise RuntimeError("a callback's own trouble")

    lane.holders = frozenset({"mine"})
    mine = one("mine", lambda _: None)
    renewer.hold(one("gone", hang))
    renewer.hold(mine)

    assert told.wait(10)
    asked, until = len(lane.asked), clock.now() + ttl
    while clock.now() < until:
        mine.check(clock.now())
    assert len(lane.asked) > asked

    goes_on.set()
    renewer.drop(mine)
    renewer.close()
    assert lane.closed


def test_close_waits_until_each_loss_is_told() -> None:
    """Else a thread is left behind that has a callback of the user's in its hands."""
    clock, told = SystemClock(), list[str]()
    renewer = Renewer(lambda patience: FakeLane(), clock=clock, events=Events())

    def tell(held: Held) -> None:
        threading.Event().wait(0.2)
        told.append(held.owner)

    for owner in ("a", "b"):
        gone = Held(owner, owner=owner, token=1, ttl=TTL, asked_at=clock.now(), renew=renew,
                    what=owner, on_lost=tell)  # fmt: skip
        renewer.lost(gone, "said by the test")
    renewer.close()

    assert told == ["a", "b"]
    assert not any(thread.is_alive() for thread in renewer._threads)


def test_a_long_lease_does_not_share_the_haste_of_a_short_one(
    renewer: Renewer, clock: HandClock
) -> None:
    """A store that is merely slow must not cost a lock of minutes its lease."""
    patience: list[tuple[Span, list[list[str]]]] = []

    def opened(asked: Span) -> FakeLane:
        lane = FakeLane(asked)
        patience.append((asked, lane.asked))
        return lane

    line = _Line(opened)
    renewer.hold(held(clock, "short", Span(SECOND)))
    renewer.hold(held(clock, "long", Span(600 * SECOND)))
    clock.at += renew_every(Span(600 * SECOND))
    short = renewer._held["short"]
    short.extend(clock.at - renew_every(Span(SECOND)))

    renewer._renew_due(line)

    assert [(span, asked) for span, asked in patience] == [
        (renew_every(Span(SECOND)), [["short"]]),
        (renew_every(Span(600 * SECOND)), [["long"]]),
    ]


def test_the_sender_grows_patient_again_after_a_short_lease(clock: HandClock) -> None:
    opened: list[Span] = []

    def lane(patience: Span) -> FakeLane:
        opened.append(patience)
        return FakeLane()

    line = _Line(lane)
    for seconds in (4, 3, 1, 1, 4):
        line.run(renew([("a", TTL)]), patience=Span(seconds * SECOND))

    assert opened == [4 * SECOND, 3 * SECOND, SECOND, 4 * SECOND]
