"""The commands that are sent all the time, with parameters that stand in for real ones.

For looking at their plans: ``onejob db explain``, and the tests that hold plans to their indexes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onejob.commands import events, ledger, overlap, replicas, runs, schedules
from onejob.commands.command import Command
from onejob.commands.ledger import NewEntry
from onejob.commands.runs import NewRun
from onejob.commands.schedules import Fire, Step
from onejob.core.effect import EntryState
from onejob.core.run import Again, Claim, End, Outcome, ReplicaId, RunId, Token
from onejob.core.time import SECOND
from onejob.core.watermark import full_probes

_LIMIT: Final = 100
_CLAIM: Final = Claim(RunId(1), Token(1), ReplicaId("stand-in"))
_NEW: Final = NewRun("stand-in", "stand-in", "{}")
_ENTRY: Final = NewEntry("stand-in/1", "stand-in", owner="stand-in")
_FIRE: Final = Fire("stand-in@1", SECOND, "stand-in", "{}", "default", 0, "retry")
_STEP: Final = Step("stand-in", 1, SECOND, 2 * SECOND, (_FIRE,), overlap="skip")


def hot() -> Mapping[str, Command[Any]]:
    """Return them by name."""
    commands: tuple[Command[Any], ...] = (
        runs.enqueue([_NEW]),
        runs.enqueue([NewRun("stand-in", "stand-in", "{}", keyed=True)]),
        runs.enqueue([NewRun("stand-in", key, "{}", keyed=True) for key in ("a", "b")]),
        runs.enqueue_alike(_NEW, "[{},{}]", stem="stand-in"),
        runs.by_key(_NEW.kind, "stand-in", "stand-in"),
        runs.claim(full_probes(["default"]), jobs=["stand-in"], replica=_CLAIM.replica, limit=20),
        runs.claim_alone(["default"], jobs=["stand-in"], replica=_CLAIM.replica),
        runs.held(_CLAIM.replica),
        runs.settle(
            [(_CLAIM, End(Outcome.SUCCEEDED)), (_CLAIM, Again(SECOND, Outcome.FAILED))], keep=SECOND
        ),
        runs.standings([_CLAIM.id]),
        runs.fence(_CLAIM, idle_limit=SECOND),
        runs.free(_CLAIM),
        runs.progress(_CLAIM, "{}"),
        runs.retry(_CLAIM.id),
        runs.wake(_CLAIM),
        runs.purge(limit=_LIMIT),
        ledger.first("stand-in", "stand-in", owner="stand-in", keep=SECOND),
        ledger.first_in_run(_CLAIM, "stand-in/1", "stand-in", keep=SECOND),
        ledger.claim_in_run(_CLAIM, _ENTRY),
        ledger.read("stand-in/1", ["stand-in"]),
        ledger.record(
            "stand-in/1",
            "stand-in",
            token=_CLAIM.token,
            state=EntryState.DONE,
            result=None,
            keep=SECOND,
        ),
        ledger.purge(limit=_LIMIT),
        overlap.recalled([_CLAIM]),
        overlap.late(limit=_LIMIT),
        replicas.renew(_CLAIM.replica, lease=SECOND),
        replicas.look(jobs=["stand-in"], queues=["default"], schedules=["stand-in"]),
        replicas.judge(),
        replicas.lost(limit=_LIMIT),
        schedules.read(["stand-in"]),
        schedules.tick([_STEP], replica=_CLAIM.replica),
        events.purge(before=SECOND, limit=_LIMIT),
    )
    return {command.name: command for command in commands}
