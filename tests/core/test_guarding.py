"""What schedules and ticks of other libraries are called, in every process alike."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from enum import Enum
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core import guarding
from onejob.core.guarding import Name
from onejob.core.time import DAY, HOUR, MINUTE, SECOND, Instant, Span

NOW = Instant(1_774_746_000_000_000)


class Colour(Enum):
    RED = 1


class Report:
    """Something with a state that nobody else can see."""

    def __init__(self, tenant: int = 0) -> None:
        self.tenant = tenant

    def send(self) -> None: ...

    @classmethod
    def purge(cls) -> None: ...


def send(*args: object, **kwargs: object) -> None: ...


def named(*args: object, **kwargs: object) -> Name:
    return guarding.derived("lib", send, "cron[hour='2']", args, kwargs)


def test_an_explicit_name_is_kept_beside_its_library() -> None:
    assert guarding.given("celery", "nightly") == Name("celery:nightly")


def test_a_derived_name_says_what_and_when() -> None:
    assert named(7, "a", key={"b": 1, "a": [True]}).text == (
        f"lib:{__name__}.send(7, 'a', key={{'a': (True), 'b': 1}}) cron[hour='2']"
    )


def test_a_function_may_be_given_by_its_name() -> None:
    assert guarding.derived("lib", "jobs:send", "60 s").text == "lib:jobs:send 60 s"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1,), ("1",)),
        (((1, 2),), (1, 2)),
        (("a, 'b'",), ("a", "b")),
        ((b"a",), ("a",)),
        ((date(2026, 1, 1),), (datetime(2026, 1, 1, tzinfo=UTC),)),
        ((Colour.RED,), (1,)),
        ((None,), ()),
    ],
)
def test_other_arguments_are_another_schedule(one: tuple, other: tuple) -> None:
    assert named(*one).text != named(*other).text
    assert not named(*one).vague


def test_the_order_of_keywords_and_of_sets_does_not_matter() -> None:
    assert named(a=1, b={"x", "y", "z"}) == named(b={"z", "y", "x"}, a=1)


def test_a_name_is_the_same_in_every_process() -> None:
    """Sets are ordered by hashes that differ between processes, addresses differ anyhow."""
    program = (
        "from core.test_guarding import *; print(named({'x','y','z','w'}, Report(), send).text)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(texts) == 1


@pytest.mark.parametrize(
    "function",
    [
        Report(1).send,
        [].clear,
        lambda: None,
        partial(send, Report(1)),
        Report(1),
        (lambda x: lambda: x)(1),
    ],
    ids=["method", "built-in method", "lambda", "partial with an object", "object", "closure"],
)
def test_what_only_its_type_tells_is_called_vague(function: Callable[[], None]) -> None:
    name = guarding.derived("lib", function, "60 s")

    assert name.vague
    assert "0x" not in name.text


@pytest.mark.parametrize("function", [send, Report.purge, partial(send, 1), print, Report])
def test_what_every_process_calls_alike_is_not_vague(function: Callable[..., object]) -> None:
    assert not guarding.derived("lib", function, "60 s").vague


def test_an_endless_argument_is_written_to_some_depth() -> None:
    endless: list[object] = []
    endless.append(endless)

    assert named(endless).vague


@pytest.mark.parametrize("name", ["x" * 1_000, "\U0001f4e7" * 150, "a\nb", " a"])
def test_what_cannot_stand_in_a_name_is_kept_as_a_hash(name: str) -> None:
    text = guarding.given("lib", name).text

    assert len(text) <= guarding.NAME_CHARACTERS
    assert text.isprintable()
    assert text == guarding.given("lib", name).text
    assert text != guarding.given("lib", f"{name}!").text


def test_ids_that_a_process_draws_are_told_from_those_that_people_give() -> None:
    assert guarding.is_random(uuid.uuid4().hex)
    assert guarding.is_random(str(uuid.uuid4()))
    assert not guarding.is_random("nightly")
    assert not guarding.is_random(uuid.uuid5(uuid.NAMESPACE_DNS, "nightly").hex)


def test_a_fire_time_is_the_key_whoever_asks_and_when() -> None:
    tick = guarding.at(Name("lib:nightly"), NOW, period=DAY)

    assert (tick.schedule, tick.key) == ("lib:nightly", "lib:nightly@2026-03-29T01:00:00Z")
    assert tick.spacing == 0


@pytest.mark.parametrize(
    ("period", "keep"), [(Span(0), 2 * DAY), (MINUTE, 2 * DAY), (Span(30 * DAY), 60 * DAY)]
)
def test_a_key_outlives_a_scheduler_that_comes_back_for_the_last_fire_time(
    period: Span, keep: int
) -> None:
    assert guarding.at(Name("x"), NOW, period=period).keep == keep


@pytest.mark.parametrize(
    ("interval", "spacing"),
    [
        (SECOND, 950_000),
        (Span(10 * SECOND), 9_500_000),
        (MINUTE, 59 * SECOND),
        (HOUR, HOUR - SECOND),
    ],
)
def test_an_interval_may_be_short_by_a_twentieth_and_a_second_at_the_most(
    interval: Span, spacing: int
) -> None:
    """A23: whatever the phases of the processes, nearly a whole interval lies between two ticks."""
    assert guarding.every(Name("x"), interval).spacing == spacing


def test_jitter_of_all_may_bring_two_ticks_closer() -> None:
    assert guarding.every(Name("x"), MINUTE, jitter=Span(9 * SECOND)).spacing == 50 * SECOND
    assert guarding.every(Name("x"), SECOND, jitter=MINUTE).spacing == 1


@pytest.mark.parametrize(
    ("since", "took", "asked_late", "noted_late"),
    [
        (100, 10, 0, 0),  # somebody of an earlier phase has it
        (190, 10, 0, 0),  # noted when we asked
        (195, 10, 0, 5),
        (200, 10, 20, 30),
        (200, 50 * SECOND, 0, 0),  # another tick
    ],
)
def test_how_late_a_tick_was_noted_is_told_by_when_it_was_meant(
    since: int, took: int, asked_late: int, noted_late: int
) -> None:
    tick = guarding.every(Name("x"), MINUTE, late=Span(asked_late))

    assert guarding.noted_late(tick, since=since, now=200, took=took) == noted_late


@given(before=st.integers(0, 29 * SECOND).map(Span), late=st.integers(0, HOUR).map(Span))
def test_half_an_interval_lies_between_two_ticks_however_late_one_was(
    before: Span, late: Span
) -> None:
    tick = guarding.every(Name("x"), MINUTE, late=late)

    assert tick.spacing // 2 <= guarding.distance(tick, before=before) <= tick.spacing


def test_a_tick_may_be_early_by_a_tenth_of_its_period_and_half_a_minute_at_the_most() -> None:
    assert guarding.early(MINUTE) == 6 * SECOND
    assert guarding.early(DAY) == 30 * SECOND


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_nobody_looks_again_before_the_holder_could_have_lapsed(chance: float) -> None:
    lease = Span(12 * SECOND)

    wait = guarding.look_again(until=NOW + lease, now=NOW, lease=lease, chance=chance)

    assert lease < wait <= lease * 1.1


def test_a_holder_that_has_lapsed_by_now_is_asked_about_soon() -> None:
    assert guarding.look_again(until=NOW - HOUR, now=NOW, lease=SECOND, chance=1.0) == SECOND // 10
