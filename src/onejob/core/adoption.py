"""Who may define a schedule, when two versions of the code are alive.

During a deploy the old and the new process both declare ``nightly``. The old one must not write
its definition back over the new one's; a rollback, though, is an old definition that is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from onejob.core.version import version_key

SUPERSEDED_MAX: Final = 20
"""Definitions remembered as replaced. One older than these counts as new."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What this process's code says: the hash of its definition, and its App's version."""

    definition: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store holds: the definition in force and those it replaced, oldest first."""

    definition: str
    version: str | None = None
    superseded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Create:
    """Nothing is stored: write it."""


@dataclass(frozen=True, slots=True)
class Same:
    """The stored definition is this one: write nothing."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Write this definition; ``superseded`` is the list to store with it, oldest first."""

    superseded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """A newer definition stands: write nothing, and say why."""

    reason: str


Adoption: TypeAlias = Create | Same | Replace | Leave


def adopt(
    *, declared: Declaration, stored: Stored | None, live_definitions: frozenset[str]
) -> Adoption:
    """Decide whether this process may define the schedule.

    ``live_definitions`` are the hashes that live replicas declare for it. A higher App version
    wins; between equal or absent versions, a definition never seen before is news. That of a lower
    version, or one already replaced, returns only when no live replica declares its successor.
    Raises UsageError for a version that cannot be ordered.
    """
    if stored is None:
        return Create()
    if declared.definition == stored.definition:
        return Same()
    order = _order(declared.version, stored.version)
    if stored.definition in live_definitions:
        if order < 0:
            return Leave(f"version {stored.version} defined it, this is version {declared.version}")
        if order == 0 and declared.definition in stored.superseded:
            return Leave("a live replica declares the definition that replaced this one")
    return Replace(_superseded_by(declared, stored))


def _order(declared: str | None, stored: str | None) -> int:
    if declared is None or stored is None:
        return 0
    mine, theirs = version_key(declared), version_key(stored)
    return (mine > theirs) - (mine < theirs)


def _superseded_by(declared: Declaration, stored: Stored) -> tuple[str, ...]:
    gone = (declared.definition, stored.definition)
    kept = [definition for definition in stored.superseded if definition not in gone]
    return (*kept, stored.definition)[-SUPERSEDED_MAX:]
