"""What an event says of fire times that became no run."""

from __future__ import annotations

from onejob.commands.command import as_json
from onejob.core.schedule import Advance
from onejob.core.time import Instant, text


def of_advance(advanced: Advance) -> str:
    """Return the detail of the event about what one decision left out; "" for nothing."""
    if not advanced.missed_count:
        return ""
    return as_json(
        {
            "count": advanced.missed_count,
            "at_least": advanced.missed_at_least,
            "newest": [{"at": text(m.at), "reason": str(m.reason)} for m in advanced.missed],
        }
    )


def of_redefinition(next_fire: int, now: int) -> str:
    """Return the same for what was due under a definition that is replaced; "" for nothing.

    The fire time that was stored is one of perhaps many: nobody works out the others any more.
    """
    if not 0 < next_fire <= now:
        return ""
    newest = [{"at": text(Instant(next_fire)), "reason": "redefined"}]
    return as_json({"count": 1, "at_least": True, "newest": newest})
