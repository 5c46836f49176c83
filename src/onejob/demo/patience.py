"""Waiting for what must happen, with a bound: nothing in the demo sleeps a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable

from onejob.errors import OnejobError

#: How often something that can't tell by itself is looked at.
LOOK_SECONDS = 0.03


class Stuck(OnejobError):
    """Something that had to happen did not, within its time."""

    code = "demo_stuck"


def until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait until ``condition`` holds; Stuck when it doesn't within ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Stuck(f"{what}: not within {seconds:.0f} s")
        time.sleep(LOOK_SECONDS)
