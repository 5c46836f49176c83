"""What follows a failure, and a death."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.retry import (
    FIRST_DEATH_WAIT_MAX,
    Bury,
    Cancel,
    GiveBack,
    GiveUp,
    Retry,
    RetryAt,
    RetryLater,
    Settle,
    after_death,
    after_failure,
)
from onejob.core.time import SECOND, Instant, Span, moment
from onejob.errors import UsageError

NOW = Instant(1_774_746_000_000_000)
MIDDLE = 0.5
"""The jitter that gives the nominal wait."""


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 15), (2, 30), (3, 60), (8, 1_920), (9, 3_600), (10_000, 3_600)]
)
def test_waits_double_up_to_the_cap(attempt: int, seconds: int) -> None:
    retry = Retry(attempts=100_000)

    answer = after_failure(retry, attempt=attempt, failure=ValueError(), now=NOW, jitter=MIDDLE)

    assert answer == RetryAt(seconds * SECOND)


@pytest.mark.parametrize(
    ("waits", "seconds"),
    [
        ("linear", [10, 20, 30, 40, 45, 45]),
        (["5s", 60, "2h"], [5, 60, 7_200, 7_200, 7_200, 7_200]),
        (("1s",), [1, 1, 1, 1, 1, 1]),
        (lambda attempt, error: attempt * 100, [100, 200, 300, 400, 500, 600]),
    ],
    ids=["linear", "list", "tuple", "function"],
)
def test_waits_may_be_linear_a_list_or_a_function(waits: Any, seconds: list[int]) -> None:
    retry = Retry(attempts=100, base="10s", cap="45s", waits=waits)

    answers = [
        after_failure(retry, attempt=n, failure=ValueError(), now=NOW, jitter=MIDDLE)
        for n in range(1, 7)
    ]

    assert answers == [RetryAt(Span(wait * SECOND)) for wait in seconds]


@pytest.mark.parametrize("waits", [["10s"], lambda attempt, error: "10s"])
def test_a_wait_that_somebody_wrote_down_is_taken_exactly(waits: Any) -> None:
    retry = Retry(waits=waits)

    answer = after_failure(retry, attempt=1, failure=ValueError(), now=NOW, jitter=0.99)

    assert answer == RetryAt(Span(10 * SECOND))


def test_a_function_hears_of_the_error_and_may_end_the_run() -> None:
    def waits(attempt: int, error: BaseException) -> str | None:
        return None if "gone" in str(error) else f"{attempt}m"

    retry = Retry(waits=waits)

    def after(error: Exception) -> RetryAt | GiveUp:
        return after_failure(retry, attempt=2, failure=error, now=NOW, jitter=MIDDLE)

    assert after(OSError("busy")) == RetryAt(Span(120 * SECOND))
    assert after(OSError("gone")) == GiveUp(
        "waits said so after attempt 2, which ended with OSError"
    )


@pytest.mark.parametrize("waits", [lambda attempt, error: 1 / 0, lambda attempt, error: "soon"])
def test_a_function_that_fails_loses_no_run(waits: Any) -> None:
    retry = Retry(base="10s", waits=waits)

    answer = after_failure(retry, attempt=2, failure=ValueError(), now=NOW, jitter=MIDDLE)

    assert isinstance(answer, RetryAt)
    assert answer.delay == 20 * SECOND
    assert answer.trouble.startswith("the retry's waits failed, so the wait is base's: ")


def test_attempts_bound_every_kind_of_wait() -> None:
    for waits in ("linear", ["1s"] * 10, lambda attempt, error: 1):
        retry = Retry(attempts=2, waits=cast("Any", waits))
        answer = after_failure(retry, attempt=2, failure=ValueError(), now=NOW, jitter=MIDDLE)
        assert answer == GiveUp("attempt 2 of 2 ended with ValueError")


async def waits_for_nobody(attempt: int, error: BaseException) -> str:
    return "1s"


def test_the_mean_wait_is_the_nominal_one() -> None:
    """D21."""
    retry = Retry(base="10s")
    waits = [retry.delay(1, jitter=n / 10_000) for n in range(10_000)]

    assert sum(waits) / len(waits) == pytest.approx(10 * SECOND, rel=0.02)
    assert min(waits) == 5 * SECOND
    assert max(waits) < 15 * SECOND


@pytest.mark.parametrize(
    ("retry", "attempt", "failure", "expected"),
    [
        (Retry(attempts=3), 3, ValueError(), "attempt 3 of 3 ended with ValueError"),
        (Retry(attempts=1), 1, ValueError(), "attempt 1 of 1 ended with ValueError"),
        (Retry(give_up_on=OSError), 1, TimeoutError(), "TimeoutError is in give_up_on"),
        (Retry(on=OSError), 1, ValueError(), "ValueError is not in on"),
        (Retry(on=OSError, give_up_on=TimeoutError), 1, TimeoutError(), "is in give_up_on"),
        (Retry(), 1, Cancel("withdrawn"), "cancelled: withdrawn"),
        (Retry(attempts=2), 2, RetryLater("1s"), "attempt 2 of 2"),
    ],
)
def test_it_gives_up_and_says_why(
    retry: Retry, attempt: int, failure: Exception, expected: str
) -> None:
    answer = after_failure(retry, attempt=attempt, failure=failure, now=NOW, jitter=MIDDLE)

    assert isinstance(answer, GiveUp)
    assert expected in answer.reason


@pytest.mark.parametrize(
    ("later", "seconds"),
    [
        (RetryLater("10m"), 600),
        (RetryLater(moment(Instant(NOW + 90 * SECOND))), 90),
        (RetryLater(moment(Instant(NOW - SECOND))), 0),
    ],
)
def test_a_handler_may_say_when(later: RetryLater, seconds: int) -> None:
    retry = Retry(on=OSError, give_up_on=RetryLater)

    answer = after_failure(retry, attempt=1, failure=later, now=NOW, jitter=0.9)

    assert answer == RetryAt(seconds * SECOND)


def test_a_bad_retry_later_is_refused_where_it_is_raised() -> None:
    with pytest.raises(UsageError, match="delay"):
        RetryLater("later")
    with pytest.raises(UsageError, match="naive"):
        RetryLater(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"attempts": True},
        {"attempts": 2.5},
        {"base": "x"},
        {"base": "2h", "cap": "1h"},
        {"on": ValueError()},
        {"give_up_on": (ValueError, "OSError")},
        {"waits": "quadratic"},
        {"waits": []},
        {"waits": ["10s", "soon"]},
        {"waits": ["10s", -1]},
        {"waits": 10},
        {"waits": waits_for_nobody},
    ],
)
def test_a_retry_that_cannot_be_right_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Retry(**cast("Any", options))


@given(st.floats(0, 1, exclude_max=True))
def test_a_first_death_gives_back_in_a_moment_and_a_second_in_seconds(jitter: float) -> None:
    first = after_death(deaths=1, on_loss="retry", jitter=jitter)
    second = after_death(deaths=2, on_loss="retry", jitter=jitter)

    assert isinstance(first, GiveBack)
    assert isinstance(second, GiveBack)
    assert 0 <= first.delay <= FIRST_DEATH_WAIT_MAX
    assert SECOND <= second.delay <= 3 * SECOND


def test_the_third_death_is_the_last() -> None:
    """B04: a run that kills its worker must not be handed out for ever."""
    assert after_death(deaths=3, on_loss="retry", jitter=MIDDLE) == Bury("worker lost 3 times")


def test_a_job_says_what_a_lost_replica_means() -> None:
    """F11."""
    assert isinstance(after_death(deaths=1, on_loss="retry", jitter=MIDDLE), GiveBack)
    assert isinstance(after_death(deaths=1, on_loss="fail", jitter=MIDDLE), Bury)
    assert after_death(deaths=3, on_loss="unknown", jitter=MIDDLE) == Settle()
