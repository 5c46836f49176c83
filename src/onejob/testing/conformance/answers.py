"""Answers of different stores made comparable: names in place of numbers that a store draws.

Tokens and ids are drawn by each store for itself and only have to agree in *which is which*. So
each number gets the name of its first appearance: the third token seen is ``token 3`` everywhere.
Order counts where a command promises one, and is taken away where it doesn't.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from onejob.commands.command import Command
from onejob.commands.runs import Made
from onejob.commands.views import EventView
from onejob.core.run import Claim, ClaimedRun

#: Commands whose bare integer is a token, and not a count.
DRAW_A_TOKEN = {
    "effect_claim",
    "effect_claim_in_run",
    "effect_reclaim",
    "inbox_claim",
    "inbox_take_over",
}
#: Commands that answer with a token for each key.
DRAW_TOKENS = {"effect_claim_many_in_run"}
#: Commands that answer with the bare ids of runs.
LIST_RUNS = {"run_cancel", "run_cancels"}
#: Commands that promise no order of their rows.
IN_NO_ORDER = {
    "run_enqueue",
    "run_enqueue_one",
    "run_enqueue_keyed",
    "replica_judge",
    "effect_read",
    "view_events",
    "view_tick_events",
}

_KINDS = {"token": "token", "id": "run", "run_id": "run"}


@dataclass(slots=True)
class Names:
    """The names that one store's numbers have received so far."""

    tokens: dict[int, str] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)

    def answer(self, command: Command[Any], answer: Any) -> Any:
        """Return an answer in which every drawn number has its name."""
        if command.name in DRAW_A_TOKEN:
            return self._named("token", answer)
        if command.name in DRAW_TOKENS:
            return {key: self._named("token", answer[key]) for key in sorted(answer)}
        if command.name in LIST_RUNS and isinstance(answer, tuple):
            return [self._named("run", id) for id in answer]
        if command.name in IN_NO_ORDER:
            # Sorted by what all stores agree on, so that names are given in the same order.
            answer = sorted(answer, key=_agreed)
        shown = self._shown(answer)
        return sorted(shown, key=repr) if command.name in IN_NO_ORDER else shown

    def _shown(self, value: Any) -> Any:
        match value:
            case EventView():
                return self._event(value)
            case dict():
                return {self._named("run", id): self._shown(one) for id, one in value.items()}
            case Claim() | ClaimedRun():
                return {name: self._field(name, one) for name, one in value._asdict().items()}
            case tuple() | list():
                return [self._shown(one) for one in value]
            case frozenset():
                return sorted(value)
            case _ if is_dataclass(value):
                return {f.name: self._field(f.name, getattr(value, f.name)) for f in fields(value)}
            case _:
                return value

    def _field(self, name: str, value: Any) -> Any:
        if name in _KINDS and isinstance(value, int):
            return self._named(_KINDS[name], value)
        return self._shown(value)

    def _event(self, event: EventView) -> dict[str, Any]:
        """Show an event without its number, its detail as a value and not as a text."""
        shown = {
            f.name: self._field(f.name, getattr(event, f.name))
            for f in fields(event)
            if f.name != "id"
        }
        if event.detail.startswith("{"):
            detail = json.loads(event.detail)
            if "by" in detail:
                detail["by"] = self._named("run", detail["by"])
            shown["detail"] = detail
        return shown

    def _named(self, kind: str, number: int | None) -> str | int | None:
        if not number:
            return number
        names = self.tokens if kind == "token" else self.runs
        return names.setdefault(number, f"{kind} {len(names) + 1}")


def _agreed(value: Any) -> Any:
    match value:
        case Made():
            return value.place
        case EventView():
            return (value.at, value.kind, value.schedule, value.key, value.run_id)
        case str():
            return value
        case _:
            return value.key
