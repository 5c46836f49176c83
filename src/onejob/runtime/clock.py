"""The clock that loops are given. Wall time is the store's business: nothing here reads it."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from onejob.core.time import SECOND

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Time as loops measure it, in microseconds from an arbitrary start."""

    def now(self) -> int:
        """Return the time that also runs while the machine is suspended, where there is one."""
        ...

    async def sleep(self, span: int) -> None:
        """Wait for ``span`` microseconds; at once where it is not positive."""
        ...


class SystemClock:
    """The machine's: CLOCK_BOOTTIME on Linux (suspend stops CLOCK_MONOTONIC), else monotonic."""

    def now(self) -> int:
        """Return microseconds since the machine started."""
        return time.clock_gettime_ns(_BOOTTIME) // 1_000

    async def sleep(self, span: int) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(max(0, span) / SECOND)
