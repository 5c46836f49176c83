"""When to look again: at a hint, at a time that somebody here knows of, or at the poll's end.

Hints are hints and the poll is the truth: a lost hint costs at most one poll, a false one costs a
claim that finds nothing.
"""

from __future__ import annotations

import asyncio

from onejob.runtime.clock import Clock

#: Later times than these are told again by a later look.
TIMES_MOST = 16


class Waker:
    """One loop's reason to wake up. Times are local microseconds; only for the loop that waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken = False
        self._times: list[int] = []
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """End the present wait, or the next one, at once."""
        self._woken = True
        self._changed.set()

    def at(self, when: int) -> None:
        """End a wait at ``when``; each time that is told ends one."""
        if when not in self._times:
            self._times = sorted([*self._times, when])[:TIMES_MOST]
            self._changed.set()

    async def wait(self, longest: int) -> None:
        """Wait for a wake-up, for a known time, or for ``longest``."""
        ends = self._clock.now() + longest
        while not self._woken:
            until = min([ends, *self._times[:1]])
            left = until - self._clock.now()
            if left <= 0:
                break
            await self._sleep(left)
        self._woken = False
        now = self._clock.now()
        self._times = [time for time in self._times if time > now]

    async def _sleep(self, span: int) -> None:
        self._changed.clear()
        sleeping = asyncio.ensure_future(self._clock.sleep(span))
        sleeping.add_done_callback(self._over)
        try:
            await self._changed.wait()
        finally:
            sleeping.cancel()

    def _over(self, sleep: asyncio.Future[None]) -> None:
        # Not one that was cancelled: told late, it would end the next wait.
        if not sleep.cancelled():
            self._changed.set()
