"""Facts as JSON, for the way between a reading process and the one that judges. No code travels."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from onejob.scan import facts
from onejob.scan.finding import Related, Verdict
from onejob.scan.suppress import Allowance

_TAG = "#"
_CLASSES: dict[str, type[Any]] = {
    each.__name__: each
    for each in (
        facts.Function,
        facts.Guard,
        facts.Guarding,
        facts.Launch,
        facts.Note,
        facts.Scheduler,
        facts.Setting,
        facts.Smell,
        facts.Trigger,
        facts.Use,
        facts.Wrapper,
        Related,
        Allowance,
    )
}
_VERDICTS = frozenset(("gives", "alone", "verdict"))


def encode(value: object) -> str:
    """Return one line of ASCII."""
    return json.dumps(_plain(value))


def decode(line: str | bytes) -> Any:
    """Return what was encoded; lists come back as tuples."""
    return _made(json.loads(line))


def _plain(value: object) -> object:
    if is_dataclass(value):
        found = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {_TAG: type(value).__name__, **found}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Verdict) else value


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_made, value))
    if not isinstance(value, dict):
        return value
    given = {key: _made(each) for key, each in value.items() if key != _TAG}
    for key in _VERDICTS & given.keys():
        given[key] = Verdict(given[key])
    return _CLASSES[value[_TAG]](**given)
