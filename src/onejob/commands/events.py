"""Events: what is worth telling about runs and schedules. Other commands write them."""

from __future__ import annotations

from onejob.commands.command import Command, Parameters, count


def purge(*, before: int, limit: int) -> Command[int]:
    """Forget events from before an instant that belong to no run; a run's go with its history."""
    parameters: Parameters = {"before": before, "limit": limit}
    return Command("event_purge", parameters, count, repeatable=True)
