"""What was tried and found, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onejob.prove.program.judge import Found, Verdict
from onejob.prove.program.play import Played
from onejob.prove.program.search import Tried

#: So many keys of a kind are named; the rest is counted.
KEYS_NAMED_MOST = 5

GUIDE = {
    "doubled": "Something is done again that was done. Write down what is done where it takes "
    "effect (a unique key), or use onejob: run.effect, app.first.",
    "lost": "Something is marked as done before it is, or nothing starts again what was left. "
    "Mark it in the same transaction as the effect, or afterwards.",
    "strange": "Under faults the program does what it otherwise does not. Look at the keys.",
}


def sentence(tried: Tried) -> str:
    """Say how it stands, in a sentence that claims no more than what was tried."""
    plays, effects = len(tried.plays), len(tried.expected)
    of = f"{plays} plays of a program with {effects} effect{'s' if effects != 1 else ''}"
    match tried.verdict:
        case Verdict.HELD:
            return f"held: nothing was lost or doubled in {of}. That is what was tried, no proof."
        case Verdict.UNKNOWN:
            return f"unknown: in {of} it did not come to its end after a fault, and says so."
        case Verdict.VIOLATED:
            assert tried.worst is not None
            return f"violated: {_broken(tried.worst.found)} ({tried.worst.plan.name})."


def _broken(found: Found) -> str:
    parts = []
    if found.doubled:
        parts.append(f"{_keys(found.doubled)} took effect more than once")
    if found.lost:
        parts.append(f"{_keys(found.lost)} never took effect")
    if found.strange:
        parts.append(f"{_keys(found.strange)} should not be there")
    return ", and ".join(parts)


def _keys(keys: tuple[str, ...]) -> str:
    named = ", ".join(keys[:KEYS_NAMED_MOST])
    rest = len(keys) - KEYS_NAMED_MOST
    return f"{named} and {rest} more" if rest > 0 else named


def story(played: Played) -> Iterator[str]:
    """Tell a play line by line."""
    for event in played.history:
        who = f"copy {event.copy} {event.what}" if event.copy else f"  {event.what}"
        yield f"{event.at:8.3f} s  {who}"


def advice(found: Found) -> Iterator[str]:
    """Say the smallest change that stops it."""
    for name, told in GUIDE.items():
        if getattr(found, name):
            yield told


def rows(tried: Tried) -> list[list[object]]:
    """Return what was tried by what was done: plays, lost, doubled, unknown."""
    names = list(dict.fromkeys(_family(played) for played in tried.plays))
    return [
        [
            name,
            sum(1 for played in tried.plays if _family(played) == name),
            *(
                sum(len(getattr(p.found, what)) for p in tried.plays if _family(p) == name)
                for what in ("lost", "doubled")
            ),
            sum(
                1 for p in tried.plays if _family(p) == name and p.found.verdict is Verdict.UNKNOWN
            ),
        ]
        for name in names
    ]


def _family(played: Played) -> str:
    return played.plan.name if len(played.plan.strikes) <= 1 else "several faults"


def document(tried: Tried, *, seed: int) -> dict[str, Any]:
    """Return the report as JSON has it; ``plan`` is what ``--replay`` reads."""
    worst = tried.worst
    return {
        "verdict": tried.verdict.value,
        "tried": {
            "plays": len(tried.plays),
            "seconds": round(tried.seconds, 1),
            "effects": len(tried.expected),
            "seed": seed,
            "by_fault": [
                dict(zip(("fault", "plays", "lost", "doubled", "unknown"), row, strict=True))
                for row in rows(tried)
            ],
        },
        "broken": {
            "doubled": list(worst.found.doubled),
            "lost": list(worst.found.lost),
            "strange": list(worst.found.strange),
        }
        if worst
        else {"doubled": [], "lost": [], "strange": []},
        "history": [
            {"at": event.at, "copy": event.copy or None, "what": event.what}
            for event in (worst.history if worst else ())
        ],
        "plan": worst.plan.written() if worst else None,
    }
