"""What a schedule does about fire times that were missed, and about those that come too soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from onejob.core.time import Span
from onejob.errors import UsageError


class CatchUp(StrEnum):
    """What happens to fire times that passed while nobody ticked.

    LATEST: the newest becomes a run. ALL: each does, up to ``catch_up_cap``, the newest ones.
    NONE: the newest does only if it is no older than 60 seconds (``PUNCTUAL``), so that an ordinary
    late wake-up still fires and an outage does not.
    """

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Overlap(StrEnum):
    """What happens when a fire time comes and the run before it has not ended.

    SKIP: it becomes no run, and that is recorded with the run in the way. QUEUE: its run waits
    until that one has ended. CANCEL: that one is cancelled, and its run waits until it is. ALLOW:
    both run. A run that is parked or unknown waits for somebody, and is in nobody's way.

    The runs that one tick makes (``catch_up="all"``) are one answer to one outage. Under SKIP they
    are made together and do not count as being in each other's way; under QUEUE and CANCEL they run
    one after another.
    """

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Policy:
    """How a schedule treats what was missed. ``max_lateness`` bounds every catch-up.

    ``jitter`` is the window within which its runs become due: its own share of it later than the
    fire time, which stays what it is.
    """

    catch_up: CatchUp = CatchUp.LATEST
    catch_up_cap: int = 100
    max_lateness: Span | None = None
    overlap: Overlap = Overlap.SKIP
    jitter: Span = Span(0)

    def __post_init__(self) -> None:
        if self.catch_up_cap < 1:
            raise UsageError(
                f"catch_up_cap={self.catch_up_cap} must be at least 1. "
                "To catch up on nothing, use catch_up='none'."
            )


def policy_stored(policy: Policy) -> dict[str, object]:
    """Return the object that a store keeps as JSON."""
    return {
        "catch_up": policy.catch_up.value,
        "catch_up_cap": policy.catch_up_cap,
        "max_lateness": policy.max_lateness,
        "overlap": policy.overlap.value,
        **({"jitter": policy.jitter} if policy.jitter else {}),
    }


def policy_restored(kept: Mapping[str, Any]) -> Policy:
    """Read what ``policy_stored`` wrote. ValueError for a rule that this version does not know."""
    late = kept.get("max_lateness")
    return Policy(
        catch_up=CatchUp(kept["catch_up"]),
        catch_up_cap=int(kept["catch_up_cap"]),
        max_lateness=None if late is None else Span(late),
        overlap=Overlap(kept["overlap"]),
        jitter=Span(kept.get("jitter", 0)),
    )
