"""Cron arithmetic that is right across clock changes, in every zone.

The rule, whatever the zone does:

* An expression of fixed times (no second, minute or hour is a wildcard) fires once per local date
  and time. A wall time that the clocks show twice counts as ``on_fold`` says: the first of the two,
  the second, or both.
* A wildcard (``*`` or ``*/n``, in second, minute or hour) fires whenever the wall shows a matching
  time, so it runs in real elapsed time through the fold.
* Wall times that the clocks skip fire once, at the first instant after the gap, or not at all, as
  ``on_gap`` says. A whole date that a zone skipped (Apia, 2011-12-30) is a gap too. Only what runs
  in every hour has nothing to make up for: the hours around the gap run.

cronsim's own stepping is not used, only its reading of fields: on the second pass of a fold it
answers with a time already past, in zones that change by half an hour it skips minutes, and it
refuses 31 February, for which "never" is the answer here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import get_args
from zoneinfo import ZoneInfo

from onejob.core.cron_calendar import HORIZON_DAYS, LOOK_BACK_DAYS, Calendar, Gap, Skipped
from onejob.core.cron_fields import parse
from onejob.core.due import Due
from onejob.core.local_clock import Fold, local_clock
from onejob.core.time import Instant, zone
from onejob.errors import UsageError

__all__ = ["HORIZON_DAYS", "LOOK_BACK_DAYS", "Cron", "Fold", "Gap", "Skipped"]


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a time zone. Build it with ``Cron.parse``, which checks everything."""

    expression: str
    tz: str
    on_gap: Gap = "shift"
    on_fold: Fold = "first"

    @classmethod
    def parse(
        cls,
        expression: str,
        tz: str | ZoneInfo | None = None,
        *,
        on_gap: Gap = "shift",
        on_fold: Fold = "first",
    ) -> Cron:
        """Check and keep an expression; UsageError says which field is wrong and why."""
        parse(expression)
        if on_gap not in get_args(Gap):
            raise UsageError(f"on_gap={on_gap!r} must be 'shift' or 'skip'.")
        if on_fold not in get_args(Fold):
            raise UsageError(f"on_fold={on_fold!r} must be 'first', 'second' or 'both'.")
        return cls(" ".join(expression.split()), zone(tz, "tz").key, on_gap, on_fold)

    def after(self, at: Instant) -> Instant | None:
        """Return the first fire time strictly after ``at``; None if there is none, in bounded time.

        "None" means within 48 years, and not beyond the year 9998.
        """
        return self.calendar().after(at)

    def due(self, after: Instant, until: Instant, *, keep: int) -> Due:
        """Return the fire times in (after, until], the newest ``keep`` of them listed.

        Counting looks back ten years from ``until`` at most, and says so.
        """
        return self.calendar().due(after, until, keep)

    def skipped(self, after: Instant, until: Instant) -> list[Skipped]:
        """Return what ``on_gap="skip"`` left out, for each gap that ends in (after, until].

        Nothing under ``on_gap="shift"``. Looks back ten years at most.
        """
        return self.calendar().skipped(after, until)

    def calendar(self) -> Calendar:
        """Return the arithmetic of this expression, made once."""
        return _calendar(self.expression, self.tz, self.on_gap, self.on_fold)


@lru_cache(maxsize=4_096)
def _calendar(expression: str, tz: str, on_gap: Gap, on_fold: Fold) -> Calendar:
    return Calendar(parse(expression), local_clock(zone(tz, "tz").key), on_gap, on_fold)
