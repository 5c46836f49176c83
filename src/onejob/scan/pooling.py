"""Session locks behind a transaction pooler: two facts of two files that are wrong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onejob.scan.facts import Fact, Function, Setting, Smell
from onejob.scan.finding import Verdict

#: The setting that a transaction pooler's address is.
POOLER = "database.pooler"
SESSION_LOCK = "advisory lock"


def session_locks_behind_poolers(facts: Sequence[Fact]) -> Iterator[Smell]:
    """Return each session lock of a tree in which a pooler's address stands."""
    pooler = next((f for f in facts if isinstance(f, Setting) and f.name == POOLER), None)
    if pooler is None:
        return
    seen = set[tuple[str, int]]()
    for fact in facts:
        for guard in fact.guards if isinstance(fact, Function) else ():
            place = (guard.path or fact.path, guard.line)
            session = guard.name == SESSION_LOCK and guard.gives is Verdict.WEAK_GUARD
            if not session or place in seen:
                continue
            seen.add(place)
            language = "python" if place[0].endswith(".py") else "javascript"
            why = (
                f"belongs to a session, and behind the pooler of {pooler.path}:{pooler.line} each "
                "transaction has another one: two hold it, or nobody can free it"
            )
            yield Smell("session-lock-behind-pooler", *place, language, SESSION_LOCK, why, "medium")
