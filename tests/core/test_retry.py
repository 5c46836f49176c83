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
from onejob.core.time import SECOND, Instant, moment
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
