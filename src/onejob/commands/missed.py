"""What an event says of fire times that became no run."""

from __future__ import annotations

from onejob.commands.command import as_json
from onejob.commands.schedules import Schedule
from onejob.core.schedule import Advance
from onejob.core.time import Instant, text

#: How the stored timing of one instant begins.
_ONCE = as_json({"at": 0})[:-2]


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


def of_redefinition(old: Schedule, now: int) -> str:
    """Return the same for what was due under a definition that is replaced; "" for nothing.

    The fire time that was stored is one of perhaps many: nobody works out the others any more. One
    that is not after the last has fired already, and the store's clock was set back since; but an
    instant may have been put anew.
    """
    anew = old.next_fire > old.last or old.timing.startswith(_ONCE)
    if not anew or not 0 < old.next_fire <= now:
        return ""
    newest = [{"at": text(Instant(old.next_fire)), "reason": "redefined"}]
    return as_json({"count": 1, "at_least": True, "newest": newest})
