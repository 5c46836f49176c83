from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from onejob import App, AsyncRun, Retry, Run, UsageError


@dataclass
class Address:
    street: str


def resize(image_id: int, size: str = "small") -> str:
    return f"{image_id} {size}"


def test_a_job_is_called_as_python_calls_a_function() -> None:
    app = App("memory://")
    job = app.job()(resize)

    assert job(7, size="big") == "7 big"
    assert job.__name__ == "resize"
    assert repr(job) == "<Job resize>"
    assert app.jobs == {"resize": job}


def test_a_second_job_of_one_name_is_refused() -> None:
    app = App("memory://")
    app.job()(resize)

    with pytest.raises(UsageError, match=r"defined already, by .*resize"):
        app.every("5m", name="resize")(lambda: None)
    app.job(name="resize-2")(resize)

    assert list(app.jobs) == ["resize", "resize-2"]


@pytest.mark.parametrize(
    "option",
    [
        {"name": ""},
        {"name": " resize"},
        {"name": "a\0b"},
        {"queue": ""},
        {"priority": 10},
        {"priority": -1},
        {"priority": True},
        {"timeout": "-1s"},
        {"timeout": "soon"},
        {"retry": 5},
        {"on_replica_loss": "ignore"},
    ],
)
def test_a_bad_option_is_refused_at_the_decorator(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        App("memory://").job(**option)(resize)


def test_a_field_to_be_logged_must_be_a_parameter() -> None:
    """G03."""
    app = App("memory://")

    with pytest.raises(UsageError, match="It has: image_id"):
        app.job(log_fields=["image"])(resize)
    with pytest.raises(UsageError, match="log_fields='image_id' must be a list"):
        app.job(log_fields="image_id")
    assert app.jobs == {}


@pytest.mark.parametrize("option", ["limit", "limit_by", "rate", "executor"])
def test_an_option_of_a_later_release_is_not_taken_silently(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        App("memory://").job(**{option: None})


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(UsageError, match="no name of its own"):
        App("memory://").job()(lambda: None)


def test_a_run_of_the_other_colour_is_refused() -> None:
    app = App("memory://")

    def sync(run: AsyncRun) -> None: ...

    async def coroutine(run: Run) -> None: ...

    with pytest.raises(UsageError, match="is sync, and its run is not AsyncRun but Run"):
        app.job()(sync)
    with pytest.raises(UsageError, match="is async, and its run is not Run but AsyncRun"):
        app.job()(coroutine)


def test_arguments_are_checked_before_any_io() -> None:
    """P8, and F16 with the path of the value: the store's host does not even exist."""
    app = App("postgresql://nobody.invalid/shop")

    @app.job()
    def ship(order: int, lines: list[dict[str, Any]], to: Address | None = None) -> None: ...

    send: Callable[..., Any] = ship.enqueue
    with pytest.raises(UsageError, match="missing a required argument: 'lines'"):
        send(1)
    with pytest.raises(UsageError, match="unexpected keyword argument 'colour'"):
        send(1, [], colour="red")
    with pytest.raises(UsageError, match=r"args\.lines\[1\]"):
        send(1, [{"a": 1}, {"b": object()}])
    with pytest.raises(UsageError, match=r"args\.lines"):
        send(1, [{"weight": math.nan}])
    with pytest.raises(UsageError, match=r"args\.order"):
        send("one", [])
    with pytest.raises(UsageError, match="the limit is 1,000,000"):
        send(1, [{"x": "y" * 1_000_000}])


@pytest.mark.parametrize("key", ["", " ", "\u200b", " x", "x\n", "x" * 1_025, "\0", 7, b"x"])
def test_a_key_that_protects_nothing_is_refused(key: Any) -> None:
    """E14: blank, padded, over-long and other than text; checked before any I/O."""
    job = App("postgresql://nobody.invalid/shop").job()(resize)

    with pytest.raises(UsageError):
        job.using(key=key)


def test_a_limit_on_names_counts_bytes() -> None:
    """F07: four bytes a character, at the limit and one past it."""
    job = App("memory://").job()(resize)

    assert job.using(key="\U0001f511" * 256).enqueue(1).created
    with pytest.raises(UsageError, match=r"1,028 bytes"):
        job.using(key="\U0001f511" * 257)


def test_a_key_function_is_checked_as_a_key_is() -> None:
    job = App("memory://").job()(resize)
    blank: Any = lambda args: ""  # noqa: E731

    with pytest.raises(UsageError, match="blank"):
        job.using(key=blank).enqueue(1)


def test_times_that_mean_nothing_are_refused() -> None:
    job = App("postgresql://nobody.invalid/shop").job()(resize)

    with pytest.raises(UsageError, match="names no time zone"):
        job.using(at=datetime(2026, 3, 29, 2, 0))  # noqa: DTZ001 - the mistake under test
    with pytest.raises(UsageError, match="negative"):
        job.using(delay=-300)
    with pytest.raises(UsageError, match="priority"):
        job.using(priority=12)


def test_one_key_for_many_runs_is_refused() -> None:
    job = App("memory://").job()(resize)

    with pytest.raises(UsageError, match="would name 2 runs at once"):
        job.using(key="img").enqueue_many([{"image_id": 1}, {"image_id": 2}])


def test_a_memory_app_enqueues_from_both_colours() -> None:
    job = App("memory://").job(retry=Retry(attempts=1))(resize)

    first = job.using(key="img-7").enqueue(7)
    second = asyncio.run(job.using(key="img-7").aenqueue(7))

    assert (first.created, second.created, second.run_id) == (True, False, first.run_id)


def test_a_slash_in_a_jobs_name_is_refused() -> None:
    """Job "pay" with key "card/1" and job "pay/card" with key "1" would share their effects."""
    app = App("memory://")

    with pytest.raises(UsageError, match=r"job/run key.*'pay.card'"):
        app.job(name="pay/card")
    with pytest.raises(UsageError, match="job/run key"):
        app.every("5m", name="pay/card")
