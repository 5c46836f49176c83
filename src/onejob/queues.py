"""``app.queues``: how much work there is, and for how long it has been waiting."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta

from onejob.commands import views
from onejob.commands.views import QueueView
from onejob.services import Services
from onejob.steps import Steps, acarry, carry


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """One queue. ``scheduled`` runs are for later, ``due`` ones could run now.

    ``waiting`` runs wait for another one to end, ``parked`` ones for code that knows their job,
    ``unknown`` ones for a word on an effect. ``oldest`` is how long the first of the due ones has
    been so: the figure to alert on.
    """

    queue: str
    scheduled: int
    due: int
    waiting: int
    running: int
    parked: int
    unknown: int
    oldest: timedelta


class Queues:
    """What queues hold. ``known`` are those that this App's jobs use."""

    def __init__(
        self, services: Callable[[], Services], known: Callable[[], Collection[str]]
    ) -> None:
        self._services, self._known = services, known

    def stats(self) -> list[QueueInfo]:
        """Count the live runs of each queue, also of this App's own that are empty, by name."""
        return carry(_stats(self._known()), self._services().run())

    async def astats(self) -> list[QueueInfo]:
        """The same in a loop."""
        return await acarry(_stats(self._known()), self._services().arun())


def _stats(known: Collection[str]) -> Steps[list[QueueInfo]]:
    found: tuple[QueueView, ...] = yield views.queues()
    views_by_name = {name: QueueView(name, 0, 0, 0, 0, 0, 0, 0) for name in known}
    views_by_name |= {view.queue: view for view in found}
    return [_info(view) for _, view in sorted(views_by_name.items())]


def _info(view: QueueView) -> QueueInfo:
    return QueueInfo(
        queue=view.queue,
        scheduled=view.scheduled,
        due=view.due,
        waiting=view.waiting,
        running=view.running,
        parked=view.parked,
        unknown=view.unknown,
        oldest=timedelta(microseconds=view.oldest),
    )
