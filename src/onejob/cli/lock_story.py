"""The story of a lock that was broken: who took it away from whom, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onejob.cli.story import Story, Told
from onejob.cli.text import clean, when
from onejob.commands import views

if TYPE_CHECKING:
    from onejob.cli.invocation import AnyStore


def find(store: AnyStore, name: str) -> Story | None:
    """Tell of the last times that locks of this name were broken; None where none was."""
    events = store.run(views.breaks(name))
    if not events:
        return None
    told = [
        Told(
            event.at,
            event.kind,
            f"Taken away from {clean(event.replica)} (token {event.token}) by "
            f"{clean(event.detail)}",
            event.token,
            event.replica,
        )
        for event in reversed(events)
    ]
    last = events[0]
    answer = (
        f"lock {clean(name)}: broken last {when(last.at)} by {clean(last.detail)}. "
        "Who has it now: onejob locks"
    )
    return Story(name, "", last.at, tuple(told), answer)
