"""A store operation as a value.

A :class:`Command` says *what* is asked. A store has a text for each name (SQL, Lua, or a method of
the memory model) and one way to carry it out, so that the same command serves sync and async
callers, every store, the caller's own transaction, the simulator and the tests.

Duties of whoever carries one out:

1. One command is atomic: all of it happens, or none.
2. Rows come back as tuples, in the column order that the text states.
3. No rows means *refused*. Refusals are returned, never raised.
4. A parameter named ``now`` that is None is replaced by the store's clock, in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: What travels to a store. Batches travel as one JSON text.
Parameter = str | int | None

#: The named values of one command.
Parameters = dict[str, Parameter]

#: A row in stated column order; stores hand out str, int and None only.
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """One atomic request to a store.

    ``name`` finds the text, ``parameters`` are its named values, ``decode`` turns the rows into
    the answer and raises only when text and decoder disagree. ``writes`` is False for commands
    that only read; ``repeatable`` is True where carrying it out twice leaves the same state as
    once, so that after a lost reply it may simply be asked again (the second answer may then be
    "refused": it was done before).
    """

    name: str
    parameters: Mapping[str, Parameter]
    decode: Callable[[Sequence[Row]], T]
    writes: bool = True
    repeatable: bool = False


def as_json(value: object) -> str:
    """Return a batch or list as the one JSON text in which it travels."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def nothing(rows: Sequence[Row]) -> None:
    """Decode a command whose rows carry no answer."""


def count(rows: Sequence[Row]) -> int:
    """Decode a command that answers with one row for each thing it changed."""
    return len(rows)


def one_int(rows: Sequence[Row]) -> int:
    """Decode a single integer."""
    return int(rows[0][0])


def found(rows: Sequence[Row]) -> bool:
    """Decode a guarded write: a row means done, none means refused."""
    return bool(rows)
