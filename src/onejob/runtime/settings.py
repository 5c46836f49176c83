"""What a replica is told at its start. Spans in microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from onejob.core.policy import Policy
from onejob.core.retry import OnLoss
from onejob.core.time import DAY, SECOND, Span
from onejob.core.timing import Timing


@dataclass(frozen=True, slots=True)
class Settings:
    """One replica's settings.

    ``lease`` is how long the fleet waits for a silent replica; ``poll`` bounds how late a run
    starts when no hint arrives, ``listening_poll`` the same while hints are received; ``grace`` is
    how long a stopping replica lets handlers finish.
    """

    name: str
    host: str
    pid: int
    version: str = ""
    lease: Span = Span(12 * SECOND)
    poll: Span = Span(2 * SECOND)
    listening_poll: Span = Span(5 * SECOND)
    keep: Span = Span(30 * DAY)
    keep_effects: Span = Span(400 * DAY)
    grace: Span = Span(25 * SECOND)
    concurrency: int = 20
    queues: tuple[str, ...] = ("default",)
    work: bool = True
    schedule: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """A job that schedules in the store may name, as its runs are made here.

    ``expect`` is how long after its fire time a run should have ended, 0 where nobody says.
    """

    queue: str = "default"
    priority: int = 0
    on_loss: OnLoss = "retry"
    expect: int = 0


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as the code declares it.

    ``definition`` is a hash over all that decides what fires when and as what; ``timing_text`` and
    ``policy_text`` are how the store shows them, as JSON.
    """

    name: str
    job: str
    timing: Timing
    policy: Policy
    definition: str
    timing_text: str
    policy_text: str
    args: str = "{}"
    queue: str = "default"
    priority: int = 0
    on_loss: OnLoss = "retry"
    expect: int = 0

    @property
    def target(self) -> Target:
        """Return what its runs are made of, besides their arguments."""
        return Target(self.queue, self.priority, self.on_loss, self.expect)
