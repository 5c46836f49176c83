"""What each act shows, in a few words and in a sentence; with faults and without."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caption:
    """``short`` stands beside the progress, ``sentence`` on the page."""

    short: str
    sentence: str


WITH_FAULTS = {
    "naive": Caption(
        "each replica has its own timer",
        "Every replica has its own timer, and each timer sends to everybody.",
    ),
    "naive-restart": Caption(
        "a worker dies in the middle and does its job again",
        "The worker dies in the middle of its job. Nothing remembers how far it had come, so after "
        "the restart it begins again from the start.",
    ),
    "lock-only": Caption(
        "a lock in the database, its holder frozen past the lease",
        "A row in the database says who may work. Its holder stands still for longer than the "
        "lease, another replica rightly takes over, and the first one wakes and goes on.",
    ),
    "onejob": Caption(
        "one replica killed, its successor frozen past its lease",
        "A replica is killed in the middle of the run and its successor is frozen past its lease. "
        "Each effect is claimed in a ledger before the call and recorded after it; whoever comes "
        "back late is refused by its fencing token.",
    ),
}

WITHOUT_FAULTS = {
    "naive": WITH_FAULTS["naive"],
    "naive-restart": Caption(
        "a worker restarts and does its job again",
        "The worker is restarted after its work and before its acknowledgement, is handed the same "
        "job and does it again.",
    ),
    "lock-only": Caption(
        "a lock in the database",
        "A row in the database says who may work. As long as nothing stands still, that is enough.",
    ),
    "onejob": Caption(
        "one run for one fire time",
        "Every replica has a scheduler; the fire time's key is unique in the store, so it becomes "
        "one run, and each email is recorded in the ledger.",
    ),
}


def caption(act: str, *, faults: bool) -> Caption:
    """Return what an act shows."""
    return (WITH_FAULTS if faults else WITHOUT_FAULTS)[act]
