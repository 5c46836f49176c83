"""A verdict is told to the broker; where that fails, the broker delivers the message again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from onejob.core.redelivery import Again, Dead, Handled, Verdict
from onejob.core.time import Span
from onejob.runtime.events import log


async def tell(
    broker: str,
    verdict: Verdict,
    *,
    done: Callable[[], Awaitable[Any]],
    again: Callable[[Span], Awaitable[Any]],
    dead: Callable[[str], Awaitable[Any]],
) -> None:
    """Acknowledge it, give it back for after a pause, or set it aside for a reason."""
    try:
        match verdict:
            case Handled():
                await done()
            case Again(_, pause):
                await again(pause)
            case Dead(why):
                await dead(why)
    except Exception as error:  # noqa: BLE001 - the inbox knows what the broker was not told
        untold(broker, error)


def untold(broker: str, error: Exception) -> None:
    """Log that a broker was not told: nothing is lost by that."""
    log.info("onejob: %s was not told (%s): it will deliver the message again", broker, error)
