"""The life of a run: its states, its outcomes, and the ways out of *running*.

::

    scheduled ──claim──▶ running ──End──────────▶ ended (history)
        ▲                   │ ──Again───────────▶ scheduled
        │                   │ ──Park────────────▶ parked    (no live replica knows its job)
        └── release ────────┘ ──LeaveUnknown────▶ unknown   (an effect's outcome must be settled)

Every way out carries the claim under which the run was held: (id, token, replica). A store
refuses it when any of the three no longer matches, which is what makes a stale attempt harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType

from onejob.core.disclosure import redacted

RunId = NewType("RunId", int)
ReplicaId = NewType("ReplicaId", str)
Token = NewType("Token", int)

#: Outcomes after which an error text is kept; longer ones are cut at this many characters.
ERROR_CHARACTERS = 8_000


def storable(text: str) -> str:
    """Return a text that every store can keep: no lone surrogates, no NUL, and not too long."""
    kept = text[:ERROR_CHARACTERS].replace("\0", "\ufffd")
    return kept.encode("utf-8", "replace").decode("utf-8")


def error_text(error: BaseException) -> str:
    """Return what an exception says of itself, less secrets, also where its ``__str__`` fails."""
    name = type(error).__name__
    try:
        said = str(error)
    except Exception as trouble:  # noqa: BLE001 - somebody else's __str__
        said = f"(its text cannot be had: {type(trouble).__name__})"
    # Cut before it is searched, and again after: what is hidden may be longer than its sign.
    return storable(redacted(f"{name}: {said[: 2 * ERROR_CHARACTERS]}" if said else name))


class State(StrEnum):
    """Where a run stands."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    RUNNING = "running"
    PARKED = "parked"
    UNKNOWN = "unknown"
    ENDED = "ended"


class Outcome(StrEnum):
    """How a run (its last attempt) ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    INTERRUPTED = "interrupted"


class Kind(StrEnum):
    """Who named the run; keys of different kinds never collide in the ledger."""

    SCHEDULE = "schedule"
    RUN = "run"
    MESSAGE = "message"
    PERIOD = "period"


# Tuples, as these two are made, hashed and compared several times for every run.


class Claim(NamedTuple):
    """The guard of every write about a running run: all three must still match in the store."""

    id: RunId
    token: Token
    replica: ReplicaId


class ClaimedRun(NamedTuple):
    """A run as a replica received it: what to execute and under which claim.

    Instants are microseconds since the epoch by the store's clock. ``claimed`` is when the store
    handed it over; ``wanted`` the time first asked for; ``fire_time`` is 0 for runs that no
    schedule made.
    """

    id: RunId
    token: Token
    replica: ReplicaId
    job: str
    key: str
    kind: str
    queue: str
    priority: int
    due: int
    wanted: int
    attempt: int
    deaths: int
    interrupted: int
    args: str
    schedule: str
    fire_time: int
    claimed: int

    @property
    def claim(self) -> Claim:
        """The guard for every later write about this attempt."""
        return Claim(self.id, self.token, self.replica)

    @property
    def scope(self) -> str:
        """Where effects of this run are unique: ``job/run key``."""
        return f"{self.job}/{self.key}"


@dataclass(frozen=True, slots=True)
class End:
    """The run is over: it moves to history and never comes back by itself."""

    outcome: Outcome
    error: str | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """The run goes back to *scheduled*, ``delay`` microseconds from the store's now.

    ``why`` is the outcome of the attempt that just ended (failed, timed out, abandoned or
    interrupted) and becomes an event. Only an interruption refunds the attempt.
    """

    delay: int
    why: Outcome
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Park:
    """No code here for this job: the run waits, visible, for a replica that knows it.

    The attempt is refunded: nothing was tried.
    """


@dataclass(frozen=True, slots=True)
class LeaveUnknown:
    """Nobody knows whether an effect of this run happened; it must be settled first.

    ``scope`` and ``key`` name that effect. ``lost`` says that it is the run as a whole, because its
    replica died: then no effect's outcome can settle it, only a person.
    """

    reason: str
    scope: str = ""
    key: str = ""
    lost: bool = False


Settlement = End | Again | Park | LeaveUnknown


@dataclass(frozen=True, slots=True)
class Standing:
    """What the store says of a run at this moment (used after a lost reply or a refusal)."""

    id: RunId
    token: Token
    replica: ReplicaId
    state: State
