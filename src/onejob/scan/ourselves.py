"""onejob's own commands in command lines: what each of them is worth as a guard.

Only the name of the command and of its options counts; a key is looked at for whether every machine
gives the same one, and is kept nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from onejob.scan.finding import Verdict

PERIOD = "claims the period in onejob's store: one process of the fleet runs it"
KEY = "claims its key in onejob's store: one process of the fleet runs it"
LOCK = (
    "holds a lock in onejob's store: no two at once, and the next call runs again; --per day makes "
    "it once a day"
)
ANEW = "draws its key anew in each process: each call is a first one"
RUN = "asks for one run by its key: a known key makes no second"
WORKER = "starts a replica: however many there are, each fire time of its App becomes one run"

_VALUED = ("--url", "--schema")
#: In a key: what another process, or the next second, has another one of.
_DIFFERS = re.compile(
    r"uuid|random|\$\$|\$\{?RANDOM|hostname|HOSTNAME|%[NsSc]|nanoseconds|\$\{?BASHPID|\bPOD_NAME"
)


@dataclass(frozen=True, slots=True)
class Said:
    """What one of our commands is, and what it is worth; SINGLE for one that guards nothing."""

    program: str
    kind: str = ""
    gives: Verdict = Verdict.SINGLE
    why: str = ""


def said(arguments: Iterable[str]) -> Said:
    """Read what follows ``onejob`` on a command line."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in _VALUED else rest[1:]
    name, options = (rest[0], rest[1:]) if rest else ("", [])
    if "--" in options:
        options = options[: options.index("--")]
    key = _value(options, "--key")
    match name:
        case "worker":
            return Said("onejob worker", "onejob-worker", Verdict.GUARDED, WORKER)
        case "once" if key is not None and _DIFFERS.search(key):
            return Said("onejob once", "onejob-once", Verdict.INERT_GUARD, ANEW)
        case "once" if key is not None:
            return Said("onejob once", "onejob-once", Verdict.GUARDED, KEY)
        case "once" if _value(options, "--per") is not None:
            return Said("onejob once", "onejob-once", Verdict.GUARDED, PERIOD)
        case "once":
            return Said("onejob once", "onejob-once", Verdict.NO_OVERLAP, LOCK)
        case "trigger" if key is not None and not _DIFFERS.search(key):
            return Said("onejob trigger", "", Verdict.GUARDED, RUN)
        case _:
            return Said("onejob")


def _value(options: list[str], name: str) -> str | None:
    for position, each in enumerate(options):
        if each == name:
            return options[position + 1] if position + 1 < len(options) else ""
        if each.startswith(name + "="):
            return each[len(name) + 1 :]
    return None
