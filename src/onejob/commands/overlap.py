"""Runs in the way of others, and runs that are late: cancel them, release what waited, tell.

A request to cancel is a row of its own, so that whoever asks waits for nobody. Carrying it out is
one guarded command, which every sweeper may try: the row of the run decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onejob.commands.command import Command, Parameters, Row, as_json, count
from onejob.core.run import Claim, RunId


@dataclass(frozen=True, slots=True)
class Late:
    """A run that should have ended by ``expected``; ``state`` is where it stands instead."""

    id: RunId
    job: str
    key: str
    schedule: str
    state: str
    expected: int


def asked(*, limit: int) -> Command[tuple[RunId, ...]]:
    """Read which runs somebody has asked to cancel."""
    return Command("run_cancels", {"limit": limit}, _ids, writes=False, repeatable=True)


def cancel(
    ids: Sequence[RunId], *, keep: int, now: int | None = None
) -> Command[tuple[RunId, ...]]:
    """Carry requests to cancel out; answer with the runs that this has ended.

    A run whose row is locked keeps its request; that of a run which has ended meanwhile is dropped.
    """
    parameters: Parameters = {"ids": as_json(sorted(ids)), "keep": keep, "why": "asked", "now": now}
    return Command("run_cancel", parameters, _ended, repeatable=True)


def recalled(claims: Sequence[Claim]) -> Command[tuple[Claim, ...]]:
    """Read which of these attempts somebody has cancelled while they ran."""
    batch = [{"id": claim.id, "token": claim.token} for claim in claims]
    return Command(
        "run_recalled", {"batch": as_json(batch)}, _claims, writes=False, repeatable=True
    )


def release(*, now: int | None = None) -> Command[int]:
    """Schedule what waits behind nothing any more, the first of each schedule; count them."""
    return Command("run_release", {"now": now}, count, repeatable=True)


def late(*, limit: int, now: int | None = None) -> Command[tuple[Late, ...]]:
    """Tell, once for each, which runs have not ended by when they should; answer with those."""
    return Command("run_late", {"limit": limit, "now": now}, _late)


def _ids(rows: Sequence[Row]) -> tuple[RunId, ...]:
    return tuple(RunId(row[0]) for row in rows)


def _ended(rows: Sequence[Row]) -> tuple[RunId, ...]:
    return tuple(RunId(id) for id, answer in rows if answer == "ended")


def _claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    return tuple(map(Claim._make, rows))


def _late(rows: Sequence[Row]) -> tuple[Late, ...]:
    return tuple(sorted((Late(*row) for row in rows), key=lambda late: late.id))
