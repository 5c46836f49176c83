"""Schedules: a cron expression or an interval, declared in code next to the job that it fires.

Intervals stand on one grid for all replicas: anchor + k * interval, from midnight UTC of
1970-01-01 unless another anchor is given. When a process was started shifts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

from onejob.commands.command import as_json
from onejob.core.cron import Cron, Fold, Gap
from onejob.core.every import Every
from onejob.core.policy import CatchUp, Overlap, Policy, policy_stored
from onejob.core.time import SECOND, Duration, Instant, Span, duration, instant, zone
from onejob.core.timing import Timing, stored
from onejob.counts import check_count
from onejob.errors import UsageError
from onejob.job import Job
from onejob.runtime.settings import Declared

#: Most runs that one tick may be asked to make.
CATCH_UP_MOST: Final = 10_000

CatchUpOption: TypeAlias = Literal["latest", "all", "none"]
OverlapOption: TypeAlias = Literal["skip", "queue", "allow", "cancel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """What happens to fire times that were missed, and to those that come too soon or at once."""

    catch_up: CatchUpOption = "latest"
    catch_up_cap: int = 100
    max_lateness: Duration | None = None
    overlap: OverlapOption = "skip"
    jitter: Duration | None = None
    args: Mapping[str, Any] | None = None

    def policy(self) -> Policy:
        """Check them, and return them as the core reads them."""
        if self.catch_up not in get_args(CatchUpOption):
            raise UsageError(f"catch_up={self.catch_up!r} must be 'latest', 'all' or 'none'.")
        if self.overlap not in get_args(OverlapOption):
            raise UsageError(
                f"overlap={self.overlap!r} must be 'skip', 'queue', 'allow' or 'cancel'."
            )
        late, jitter = self.max_lateness, self.jitter
        return Policy(
            catch_up=CatchUp(self.catch_up),
            catch_up_cap=check_count(self.catch_up_cap, what="catch_up_cap", most=CATCH_UP_MOST),
            max_lateness=None if late is None else duration(late, what="max_lateness"),
            overlap=Overlap(self.overlap),
            jitter=Span(0) if jitter is None else duration(jitter, what="jitter"),
        )


def cron(
    expression: str, tz: str | ZoneInfo | None, *, on_gap: Gap = "shift", on_fold: Fold = "first"
) -> Cron:
    """Read a cron expression and its policies; UsageError says what is wrong."""
    if not isinstance(expression, str):
        raise UsageError(f"a cron expression is text, such as '0 2 * * *', not {expression!r}.")
    return Cron.parse(expression, tz, on_gap=on_gap, on_fold=on_fold)


def every(interval: Duration, anchor: datetime | None) -> Every:
    """Read an interval, of a second at least, and its anchor."""
    span = duration(interval, what="interval", least=Span(SECOND))
    return Every(span, Instant(0) if anchor is None else instant(anchor, what="anchor"))


def check_jitter(timing: Timing, policy: Policy) -> None:
    """Refuse one by which a schedule stands in its own way."""
    waits = policy.overlap in (Overlap.SKIP, Overlap.CANCEL)
    if waits and isinstance(timing, Every) and policy.jitter > timing.interval:
        raise UsageError(
            f"jitter={policy.jitter // SECOND} s is longer than the interval, "
            f"{timing.interval // SECOND} s: a run that waits for its time would be in the way of "
            "all that follow. Give a jitter no longer than the interval."
        )


def declare(job: Job[Any, Any, Any], timing: Timing, options: ScheduleOptions) -> Declared:
    """Return the schedule that fires ``job``, under the job's name.

    Its arguments are checked now: a fire time is no moment to find out that they do not fit.
    """
    policy = options.policy()
    check_jitter(timing, policy)
    args = encoded(job, options.args)
    timing_text, policy_text = as_json(stored(timing)), as_json(policy_stored(policy))
    target = job.options.target()
    decisive = (
        *(job.name, timing_text, policy_text, args),
        *(target.queue, target.priority, target.on_loss),
    )
    return Declared(
        name=job.name,
        job=job.name,
        timing=timing,
        policy=policy,
        definition=fingerprint_of(*decisive),
        timing_text=timing_text,
        policy_text=policy_text,
        args=args,
        queue=target.queue,
        priority=target.priority,
        on_loss=target.on_loss,
        expect=target.expect,
    )


def encoded(job: Job[Any, Any, Any], args: Mapping[str, Any] | None) -> str:
    """Check a schedule's arguments against its job, and return them as they are stored."""
    asked: object = {} if args is None else args
    if not isinstance(asked, Mapping):
        raise UsageError(f"args={asked!r} must be the arguments by name: args={{'tenant': 42}}.")
    bound = job.signature.bind((), dict(asked))
    # Hints are resolved only where there is a value: a class may be defined after its job.
    return job.signature.encode(bound) if bound else "{}"


def fingerprint_of(*decisive: object) -> str:
    """Return the hash by which two definitions are told apart."""
    return sha256(as_json(decisive).encode()).hexdigest()


def zone_of(timing: Timing) -> ZoneInfo:
    """Return the zone in which a schedule's fire times are shown."""
    return zone(timing.tz if isinstance(timing, Cron) else None, "tz")
