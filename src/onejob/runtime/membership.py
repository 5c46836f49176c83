"""A replica's place in the fleet, as its own threads and loops see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from onejob.core.run import ReplicaId


@dataclass(slots=True)
class Membership:
    """One id and the lease under it.

    ``deadline`` is on the local clock and ends before the store's (promise P6). Once ``lost`` says
    why, it is over for good: the replica returns under another id. Renewals have been in time since
    ``punctual_since``. Written by the keeper, or by the replica's loop where the keeper is held up;
    reading it from any thread is safe.
    """

    id: ReplicaId
    deadline: int
    punctual_since: int
    lost: str = field(default="")

    def valid(self, now: int) -> bool:
        """Tell whether this replica may still act under this id."""
        return not self.lost and now < self.deadline
