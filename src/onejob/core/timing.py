"""When a schedule fires: a cron expression, an interval or one instant; and how a store keeps it.

The stored form is a JSON object: ``{"cron": "0 2 * * *", "tz": "Europe/Berlin"}`` with ``on_gap``
and ``on_fold`` where they are not the usual ones, ``{"every": MICROSECONDS, "anchor": INSTANT}``,
or ``{"at": INSTANT}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from onejob.core.cron import Cron
from onejob.core.every import Every, Once
from onejob.core.time import Instant, Span
from onejob.errors import UsageError

Timing: TypeAlias = Cron | Every | Once


def stored(timing: Timing) -> dict[str, object]:
    """Return the object that a store keeps as JSON."""
    match timing:
        case Cron(expression, tz, on_gap, on_fold):
            policies = {
                **({} if on_gap == "shift" else {"on_gap": on_gap}),
                **({} if on_fold == "first" else {"on_fold": on_fold}),
            }
            return {"cron": expression, "tz": tz, **policies}
        case Every(interval, anchor):
            return {"every": interval, "anchor": anchor}
        case Once(at):
            return {"at": at}


def restored(kept: Mapping[str, Any]) -> Timing:
    """Read what ``stored`` wrote. UsageError for a form that this version does not know."""
    match kept:
        case {"cron": str(expression), "tz": str(tz)}:
            policies = {name: kept[name] for name in ("on_gap", "on_fold") if name in kept}
            return Cron.parse(expression, tz, **policies)
        case {"every": int(interval), "anchor": int(anchor)}:
            return Every(Span(interval), Instant(anchor))
        case {"at": int(at)}:
            return Once(Instant(at))
    raise UsageError(
        f"a schedule's timing in the store has the keys {sorted(kept)}, which this version cannot "
        "read. A newer onejob wrote it: upgrade onejob here."
    )
