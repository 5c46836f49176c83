"""Find the Lua script of a command: ``prelude.lua``, what its file shares, and its own lines.

Scripts live in ``lua/*.lua``. One starts at ``-- name: NAME``; what stands in a file before the
first of them is shared by all of that file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib import resources

from onejob.errors import UnsupportedByStore

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One script as it is sent. ``digest`` is what the server calls it, once it knows it."""

    text: str
    digest: str


def script(name: str) -> Script:
    """Return the script of a command. Raises UnsupportedByStore where there is none."""
    found = _scripts().get(name)
    if found is None:
        raise UnsupportedByStore(
            "keep runs, schedules and effects",
            "Redis",
            instead="This version keeps locks, fences, periods and guarded ticks there; for the "
            "rest use postgresql:// or sqlite:///.",
        )
    return found


def names() -> tuple[str, ...]:
    """Return every command that has a script."""
    return tuple(sorted(_scripts()))


@cache
def _scripts() -> dict[str, Script]:
    folder = resources.files("onejob.stores") / "lua"
    prelude = (folder / "prelude.lua").read_text("utf-8")
    found: dict[str, Script] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        shared, *parts = _NAME.split(file.read_text("utf-8"))
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            text = f"{prelude}\n{shared}\nlocal function rows(){body}end\nreturn answer(rows())\n"
            # What the server itself names it by; nothing rests on it being hard to forge.
            found[name] = Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
    return found
