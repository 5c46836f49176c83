"""What ``settings.ONEJOB`` may say, read when the App is built.

| key | means | where absent |
|---|---|---|
| DATABASE | the alias in DATABASES whose database has the tables | ``default`` |
| URL | a store that is no database of the project, instead of an alias | |
| SCHEMA, NAME, VERSION, LEASE, POLL, KEEP, KEEP_EFFECTS, CONCURRENCY, GRACE, SINGLE_MACHINE | as \
in ``App`` | as in ``App`` |
| START | whether each web process is a replica from its first request on | False |
| MODULES | what is imported from each installed app to find jobs | ``["jobs"]`` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from django.conf import settings

from onejob.errors import UsageError

#: Keys that are handed to ``App`` as they are, by its names.
_OF_APP: Final = {
    "SCHEMA": "schema",
    "NAME": "name",
    "VERSION": "version",
    "LEASE": "lease",
    "POLL": "poll",
    "KEEP": "keep",
    "KEEP_EFFECTS": "keep_effects",
    "CONCURRENCY": "concurrency",
    "GRACE": "grace",
    "SINGLE_MACHINE": "single_machine",
}
_KEYS: Final = ("DATABASE", "URL", "START", "MODULES", *_OF_APP)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, checked. ``alias`` is "" where ``url`` names the store."""

    alias: str
    url: str
    start: bool
    modules: tuple[str, ...]
    of_app: Mapping[str, Any]


def read() -> Configuration:
    """Read ``settings.ONEJOB``. Raises UsageError for what cannot be meant; opens nothing."""
    given = getattr(settings, "ONEJOB", {})
    if not isinstance(given, Mapping):
        raise UsageError(f"ONEJOB={given!r} in the settings must be a dict: {{'LEASE': '12s'}}.")
    for key in given:
        if key not in _KEYS:
            close = get_close_matches(str(key).upper(), _KEYS, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(_KEYS)}."
            raise UsageError(f"ONEJOB in the settings has a key {key!r} that means nothing. {hint}")
    url, alias = given.get("URL") or "", given.get("DATABASE") or ""
    if url and alias:
        raise UsageError("ONEJOB in the settings has both DATABASE and URL. Keep one of them.")
    modules = given.get("MODULES", ("jobs",))
    if isinstance(modules, str) or not all(
        isinstance(name, str) and name.isidentifier() for name in modules
    ):
        raise UsageError(
            f"ONEJOB['MODULES']={modules!r} must be a list of names of modules, such as ['jobs']."
        )
    start = given.get("START", False)
    if not isinstance(start, bool):
        raise UsageError(f"ONEJOB['START']={start!r} must be True or False.")
    return Configuration(
        alias="" if url else alias or "default",
        url=url,
        start=start,
        modules=tuple(modules),
        of_app={name: given[key] for key, name in _OF_APP.items() if key in given},
    )
