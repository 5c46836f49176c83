"""What users call, written down: names, signatures, fields, and how errors descend.

    PYTHONPATH=. .venv/bin/python tests/api/public_api.py

writes ``public_api.txt`` anew. A change there is a change for users: it belongs into CHANGELOG.md.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onejob

SNAPSHOT = Path(__file__).with_name("public_api.txt")

#: What an App, and what hangs on it, gives that ``onejob`` itself does not name.
HELD = ("events", "runs", "schedules", "effects", "locks")
#: Functions of other objects that are an App's own.
BORROWED = ("first", "afirst", "effect", "aeffect", "lock", "fence", "afence", "once_per")


def described() -> str:
    """Return the public surface as text, one thing a line."""
    lines = [line for name in sorted(onejob.__all__) for line in _of(name, getattr(onejob, name))]
    app = onejob.App("memory://")
    lines += [f"App.{name}{inspect.signature(getattr(app, name))}" for name in BORROWED]
    for name in HELD:
        lines += _of(f"App.{name}", type(getattr(app, name)), made=False)
    lines += _of("Job.using()", type(app.job()(described).using()), made=False)
    return "\n".join(lines) + "\n"


def _of(name: str, value: Any, *, made: bool = True) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _of_class(name, value, made=made)
    elif callable(value):
        yield f"{name}{inspect.signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def _of_class(name: str, cls: type, *, made: bool) -> Iterator[str]:
    if issubclass(cls, Exception):
        yield f"{name} < {', '.join(base.__name__ for base in cls.__bases__)}"
    if made:
        yield f"{name}{_signature(cls)}"
    fields = (
        {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else ()
    )
    for member in sorted(set(dir(cls)) - set(dir(Exception)) - set(fields)):
        if member.startswith("_"):
            continue
        found = inspect.getattr_static(cls, member)
        if isinstance(found, property):
            yield f"{name}.{member}: property"
        elif callable(getattr(cls, member)):
            yield f"{name}.{member}{_signature(getattr(cls, member))}"
        elif isinstance(found, str):
            yield f"{name}.{member} = {found!r}"
        else:
            yield f"{name}.{member}: attribute"


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"


if __name__ == "__main__":
    SNAPSHOT.write_text(described(), encoding="utf-8")
