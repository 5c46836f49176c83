"""What follows a failed attempt, and a dead replica.

Attempts, deaths and interruptions are counted apart: a handler that raises, a replica that dies
under it, and a replica that was asked to stop are three different things with three caps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Final, Literal, TypeAlias

from onejob.core.time import SECOND, Duration, Instant, Span, duration, instant, show_span
from onejob.errors import UsageError

MAX_DEATHS: Final = 3
"""The third replica that dies under a run is the last one."""

FIRST_DEATH_WAIT_MAX: Final = Span(SECOND // 5)
"""How long a run that has outlived one replica waits at the most."""

MAX_INTERRUPTIONS: Final = 20
"""Clean stops that give a run back without spending an attempt."""

ExceptionTypes: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]
Waits: TypeAlias = (
    Literal["exponential", "linear"]
    | Sequence[Duration]
    | Callable[[int, BaseException], Duration | None]
)
OnLoss: TypeAlias = Literal["retry", "fail", "unknown"]

_DOUBLINGS_MAX: Final = 60
"""Past this, every base has met every cap; it keeps the power of two small."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failing run is tried, and how long it waits in between.

    ``attempts`` counts the first one. Waits double from ``base`` up to ``cap``, or with
    ``waits="linear"`` grow by ``base`` each time, and get jitter. ``waits`` may also be a list of
    waits, of which the last repeats, or a function of the attempt's number and its error: its
    answer is the wait, None ends the run. Both are taken exactly. With ``on``, only those
    exceptions are tried again; ``give_up_on`` ends the run at once, and wins over ``on``. Raises
    UsageError for values that cannot be right.
    """

    attempts: int = 5
    base: Duration = "15s"
    cap: Duration = "1h"
    on: ExceptionTypes | None = None
    give_up_on: ExceptionTypes | None = None
    waits: Waits = "exponential"
    base_span: Span = field(init=False, repr=False, compare=False)
    cap_span: Span = field(init=False, repr=False, compare=False)
    spans: tuple[Span, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        attempts: object = self.attempts
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise UsageError(
                f"attempts={attempts!r} must be a whole number from 1, which counts the first try. "
                "Give attempts=1 for a job that is never tried again."
            )
        base, cap = duration(self.base, what="base"), duration(self.cap, what="cap")
        if cap < base:
            raise UsageError(
                f"cap={show_span(cap)} is shorter than base={show_span(base)}. "
                "Give a cap of at least the base."
            )
        for what, types in (("on", self.on), ("give_up_on", self.give_up_on)):
            _check_types(what, types)
        object.__setattr__(self, "spans", _listed(self.waits))
        object.__setattr__(self, "base_span", base)
        object.__setattr__(self, "cap_span", cap)

    def delay(self, attempt: int, *, jitter: float) -> Span:
        """Return the wait after ``attempt`` where no function says it.

        ``jitter`` in [0, 1) becomes a factor of 0.5 to 1.5, symmetric so that the mean wait is the
        nominal one: a factor drawn from 0 to 1 would halve it and double the load. A list has none.
        """
        if self.spans:
            return self.spans[min(attempt, len(self.spans)) - 1]
        if self.waits == "linear":
            nominal = min(self.base_span * attempt, self.cap_span)
        else:
            nominal = min(self.base_span << min(attempt - 1, _DOUBLINGS_MAX), self.cap_span)
        return Span(round(nominal * (0.5 + jitter)))


class RetryLater(Exception):
    """Raise it in a handler to be tried again later: ``raise RetryLater("10m")``.

    Takes a duration, or an aware datetime. The wait is exactly that, without jitter, and ``on`` and
    ``give_up_on`` do not apply. It still counts as an attempt, so a run that only ever asks for
    later ends after ``Retry(attempts=...)``: give those jobs more attempts.
    """

    def __init__(self, delay: Duration | datetime) -> None:
        self.until = instant(delay, what="delay") if isinstance(delay, datetime) else None
        self.span = None if isinstance(delay, datetime) else duration(delay, what="delay")
        super().__init__(delay)

    def delay_from(self, now: Instant) -> Span:
        """Return the wait asked for; zero when the instant asked for has passed."""
        if self.until is not None:
            return Span(max(0, self.until - now))
        assert self.span is not None
        return self.span


class Cancel(Exception):
    """Raise it in a handler to end the run as cancelled: ``raise Cancel("order withdrawn")``.

    Not a failure: nothing is tried again, and ``reason`` is kept with the run.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Try again when ``delay`` has passed on the store's clock.

    ``trouble`` is why the policy's function was not followed, "" where it was, or there is none.
    """

    delay: Span
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the run: no further attempt."""

    reason: str


def after_failure(
    retry: Retry, *, attempt: int, failure: BaseException, now: Instant, jitter: float
) -> RetryAt | GiveUp:
    """Decide what follows attempt number ``attempt``, which ended with ``failure``.

    ``now`` matters only to a RetryLater that names an instant.
    """
    name = type(failure).__name__
    if isinstance(failure, Cancel):
        return GiveUp(f"cancelled: {failure.reason}" if failure.reason else "cancelled")
    asked_for_later = isinstance(failure, RetryLater)
    if not asked_for_later:
        if retry.give_up_on is not None and isinstance(failure, retry.give_up_on):
            return GiveUp(f"{name} is in give_up_on")
        if retry.on is not None and not isinstance(failure, retry.on):
            return GiveUp(f"{name} is not in on")
    if attempt >= retry.attempts:
        return GiveUp(f"attempt {attempt} of {retry.attempts} ended with {name}")
    if isinstance(failure, RetryLater):
        return RetryAt(failure.delay_from(now))
    if callable(retry.waits):
        return _asked(retry, retry.waits, attempt, failure, jitter)
    return RetryAt(retry.delay(attempt, jitter=jitter))


def _asked(
    retry: Retry,
    waits: Callable[[int, BaseException], Duration | None],
    attempt: int,
    failure: BaseException,
    jitter: float,
) -> RetryAt | GiveUp:
    """Ask the policy's function. One that fails is no reason to lose the run."""
    try:
        wait = waits(attempt, failure)
        if wait is not None:
            return RetryAt(duration(wait, what="what waits() returned"))
    except Exception as error:  # noqa: BLE001 - the user's function; told, and waited as by default
        told = f"the retry's waits failed, so the wait is base's: {type(error).__name__}: {error}"
        return RetryAt(retry.delay(attempt, jitter=jitter), told)
    return GiveUp(
        f"waits said so after attempt {attempt}, which ended with {type(failure).__name__}"
    )


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give the run back: due again when ``delay`` has passed, and claimed alone."""

    delay: Span


@dataclass(frozen=True, slots=True)
class Bury:
    """End the run as failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Put the run in state unknown: somebody must say what happened."""


def after_death(*, deaths: int, on_loss: OnLoss, jitter: float) -> GiveBack | Bury | Settle:
    """Decide what follows when the replica of a run died; ``deaths`` counts this one.

    ``on_loss`` is the job's ``on_replica_loss``. Given back with a wait that differs by jitter in
    [0, 1), so that the runs of one dead replica do not come back in the same instant: a moment
    after the first death (somebody has waited a lease already), seconds after the second.
    """
    if on_loss == "unknown":
        return Settle()
    if on_loss == "fail":
        return Bury("worker lost; on_replica_loss is 'fail'")
    if deaths >= MAX_DEATHS:
        return Bury(f"worker lost {deaths} times")
    if deaths == 1:
        return GiveBack(Span(round(FIRST_DEATH_WAIT_MAX * jitter)))
    return GiveBack(Span(round((deaths - 1) * SECOND * (1 + 2 * jitter))))


def _listed(waits: object) -> tuple[Span, ...]:
    """Return the waits of a list; none for a name or a function. UsageError for anything else."""
    if waits in ("exponential", "linear") if isinstance(waits, str) else callable(waits):
        if iscoroutinefunction(waits):
            raise UsageError("waits is a coroutine function, and nobody could await it. Use def.")
        return ()
    if isinstance(waits, str) or not isinstance(waits, Sequence) or not waits:
        raise UsageError(
            f"waits={waits!r} must be 'exponential', 'linear', a list such as ['10s', '1m', '1h'], "
            "or a function of the attempt's number and its error."
        )
    return tuple(duration(wait, what="waits") for wait in waits)


def _check_types(what: str, types: object) -> None:
    if types is None:
        return
    for each in types if isinstance(types, tuple) else (types,):
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise UsageError(
                f"{what}={types!r} must be an exception type or a tuple of them, "
                f"such as {what}=(ConnectionError, TimeoutError)."
            )
