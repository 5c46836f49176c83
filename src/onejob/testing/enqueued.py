"""What a test enqueued, and how it is compared with what the test expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onejob.core.time import Instant, moment
from onejob.errors import UsageError
from onejob.job import Job
from onejob.stores.memory.tables import Run

#: How many runs a failure lists.
LISTED_MAX = 20


@dataclass(frozen=True, slots=True)
class EnqueuedRun:
    """A run that code under test made. ``args`` came back through the job's codec, by name."""

    id: int
    job: str
    key: str
    args: Mapping[str, Any]
    queue: str
    priority: int
    due: datetime
    keyed: bool

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        key = f" key={self.key!r}" if self.keyed else ""
        return f"{self.job}({shown}){key} due={self.due:%Y-%m-%d %H:%M:%S}"


def enqueued_run(run: Run, job: Job[..., ..., Any]) -> EnqueuedRun:
    """Return a run of the store as a test sees it."""
    return EnqueuedRun(
        id=run.id,
        job=run.job,
        key=run.key,
        args=job.signature.decode(run.args),
        queue=run.queue,
        priority=run.priority,
        due=moment(Instant(run.wanted)),
        keyed=bool(run.keyed),
    )


def complaint(
    runs: Sequence[EnqueuedRun],
    job: Job[..., ..., Any],
    *,
    count: int | None,
    key: str | None,
    args: Mapping[str, Any] | None,
) -> str:
    """Return what is wrong with what was enqueued, "" where it is as expected."""
    _check_names(job, args)
    found = [run for run in runs if _fits(run, job.name, key, args)]
    if len(found) == count or (count is None and found):
        return ""
    wanted = "at least once" if count is None else _times(count)
    given = [f"key={key!r}"] if key is not None else []
    given += [f"{name}={value!r}" for name, value in (args or {}).items()]
    what = f"{job.name} with {', '.join(given)}" if given else job.name
    lines = [f"{what} should have been enqueued {wanted}, and was {_times(len(found))}."]
    others = sorted(runs, key=lambda run: (run.job != job.name, run.id))
    if not others:
        lines.append("Nothing was enqueued.")
    else:
        lines.append("What was enqueued:")
        lines += [f"  {run}" for run in others[:LISTED_MAX]]
        if len(others) > LISTED_MAX:
            lines.append(f"  and {len(others) - LISTED_MAX} more")
    return "\n".join(lines)


def _fits(run: EnqueuedRun, job: str, key: str | None, args: Mapping[str, Any] | None) -> bool:
    wanted = args or {}
    return (
        run.job == job
        and key in (None, run.key)
        and all(name in run.args and run.args[name] == value for name, value in wanted.items())
    )


def _check_names(job: Job[..., ..., Any], args: Mapping[str, Any] | None) -> None:
    for name in args or {}:
        if name not in job.signature.names:
            raise UsageError(
                f"args={dict(args or {})!r}: {job.name} has no parameter {name!r}. It has: "
                f"{', '.join(job.signature.names) or 'none'}."
            )


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
