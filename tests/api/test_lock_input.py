"""What cannot be right is said before anything is asked of the store, with what to do instead."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

import onejob
from onejob import App, UsageError

#: Building and refusing need no store: this one would fail at the first use.
app = App("postgresql://nobody@127.0.0.1:1/nothing", name="shop")

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": ""}, "blank"),
    "space only": ({"name": "  "}, "blank"),
    "space around": ({"name": " nightly"}, "Strip it"),
    "NUL": ({"name": "a\0b"}, "NUL"),
    "too long": ({"name": "x" * 1_025}, "1,024"),
    "not text": ({"name": 842_001}, "must be text"),
    "lone surrogate": ({"name": "\ud800"}, "surrogate"),
    "ttl below the floor": ({"ttl": "500ms"}, "shorter than 1s"),
    "no ttl": ({"ttl": 0}, "shorter than 1s"),
    "negative ttl": ({"ttl": -1}, "negative"),
    "infinite ttl": ({"ttl": math.inf}, "not a duration"),
    "ttl without a unit": ({"ttl": "30"}, "30s"),
    "ttl of None": ({"ttl": None}, "not a duration"),
    "negative wait": ({"wait": "-1s"}, "not a duration"),
    "negative wait as a number": ({"wait": timedelta(seconds=-1)}, "negative"),
    "infinite wait": ({"wait": math.inf}, "not a duration"),
    "wait that is not a number": ({"wait": math.nan}, "not a duration"),
    "wait without an end": ({"wait": None}, "for ever"),
    "wait of True": ({"wait": True}, "not a duration"),
    "negative minimum": ({"at_least": -5}, "negative"),
    "on_lost that cannot be called": ({"on_lost": "stop"}, "on_lost"),
    "resource that is blank": ({"protects": ["ledger", " "]}, "resource"),
    "resource that is no text": ({"protects": [7]}, "resource"),
    "too many resources": ({"protects": [f"r{n}" for n in range(101)]}, "100"),
    "resources that are no list": ({"protects": 7}, "protects"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_lock_that_cannot_be_right_is_refused_before_any_io(case: str) -> None:
    """P8"""
    wrong, says = WRONG[case]

    with pytest.raises(UsageError, match=says):
        app.lock(**{"name": "nightly", **wrong})


def test_whatever_is_refused_names_what_to_give_instead() -> None:
    for wrong, _ in WRONG.values():
        with pytest.raises(UsageError) as refused:
            app.lock(**{"name": "nightly", **wrong})
        text = str(refused.value)
        assert any(word in text for word in ("Give", "Strip", "Remove", "Use", "Say", "Decode",
                                             "Write", "Name")), text  # fmt: skip


def test_building_a_lock_asks_nothing_of_the_store() -> None:
    assert repr(app.lock("nightly", ttl="30s", wait="1m", protects="ledger")) == "<Lock 'nightly'>"


def test_a_sync_wait_in_a_running_loop_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="async with"):
            app.lock("nightly", wait="1s").__enter__()

    asyncio.run(main())


def test_a_generator_cannot_be_decorated() -> None:
    def rows() -> Iterator[int]:
        yield 1

    async def arows() -> AsyncIterator[int]:
        yield 1

    for function in (rows, arows):
        with pytest.raises(UsageError, match="generator"):
            app.lock("nightly")(function)


def test_a_lock_to_look_at_or_to_break_needs_a_name_and_a_reason() -> None:
    for name in ("", "a\0b", 7):
        with pytest.raises(UsageError, match="lock name"):
            app.locks.get(name)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="lock name"):
            app.locks.break_(name, reason="x")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="lock name"):
            onejob.assert_locked(name)  # type: ignore[arg-type]
    for reason in ("", " \n", None):
        with pytest.raises(UsageError, match="reason"):
            app.locks.break_("nightly", reason=reason)  # type: ignore[arg-type]


def test_breaking_what_nobody_holds_is_said_to_be_nothing(sqlite_app: App) -> None:
    with pytest.raises(LookupError, match="not taken"):
        sqlite_app.locks.break_("nightly", reason="x")
    with sqlite_app.lock("nightly"):
        pass
    with pytest.raises(LookupError, match="not taken"):
        sqlite_app.locks.break_("nightly", reason="x")
