"""A guard that notes what its hook asks, and answers as the test says: for tests of hooks alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onejob.core.guarding import Tick
from onejob.core.time import SECOND, Span
from onejob.permits import Answer, Later, Leave, Permit
from onejob.runtime.waiting_room import WaitingRoom


@dataclass
class Noted:
    """Stands where a Guard stands. The next answers are in ``answers``, else each tick is won."""

    answers: list[type[Answer]] = field(default_factory=list)
    asked: list[Tick] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    now: int = 0
    wait: Span = SECOND

    def __post_init__(self) -> None:
        self.room = WaitingRoom(threaded=False, clock=lambda: self.now)

    def in_a_thread(self) -> None: ...

    def ask(self, tick: Tick, *, again: bool = False) -> Answer:
        self.asked.append(tick)
        kind = self.answers.pop(0) if self.answers else Permit
        if kind is Later:
            return Later(tick, self.wait)
        return Permit(tick, None) if kind is Permit else Leave(tick, "told so")

    def admit(
        self, tick: Tick, again: Callable[[], object], *, hold: bool = False
    ) -> Permit | None:
        answer = self.ask(tick)
        self.room.forget(tick.key)
        if isinstance(answer, Later):
            self.room.keep(tick.key, again, answer.wait)
        return answer if isinstance(answer, Permit) else None

    def attempt(self, tick: Tick, fire: Callable[[], object]) -> bool:
        permit = self.admit(tick, lambda: self.attempt(tick, fire))
        if permit is not None:
            fire()
            self.done(permit)
        return permit is not None

    def begin(self, permit: Permit, *, hold: bool = False) -> bool:
        return True

    def done(self, permit: Permit) -> None:
        self.ended.append(("done", permit.tick.key))

    def failed(self, permit: Permit, error: BaseException) -> None:
        self.ended.append(("failed", permit.tick.key))

    def give_back(self, permit: Permit, why: str) -> None:
        self.ended.append(("given back", permit.tick.key))

    def look_later(self) -> None:
        """Let those who wait be called back."""
        self.now += 2 * SECOND
        self.room.look()

    @property
    def keys(self) -> list[str]:
        return [tick.key for tick in self.asked]
