"""What a loop over many items asks of those who carry it out."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from onejob.commands.command import Command
from onejob.core.run import Token
from onejob.effect import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NextItems:
    """Ask for the next items, at most ``limit``; fewer only at the end."""

    limit: int


@dataclass(frozen=True, slots=True)
class Task:
    """An item to call: under ``token``, or, where it has none, as an effect by itself."""

    item: Any
    key: str
    token: Token | None
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended."""

    task: Task
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Hand tasks to the crew."""

    tasks: list[Task]


@dataclass(frozen=True, slots=True)
class Collect:
    """Ask what has ended; wait for one where ``wait``. Answered with (ended, whether it waited)."""

    wait: bool


@dataclass(frozen=True, slots=True)
class Recall:
    """Take back the tasks that nobody has begun."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Do an item in a fenced transaction; answered with whether it was the first time."""

    item: Any
    key: str


Asked: TypeAlias = Command[Any] | NextItems | Begin | Collect | Recall | Unit
Steps: TypeAlias = Generator[Asked, Any, T]
