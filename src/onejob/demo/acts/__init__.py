"""The acts. Each file holds what its replicas run, as people write it, and how the act goes.

``application`` is imported in the replicas, ``direct`` in the parent.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

#: Each act's name and its file, in the order in which they are shown.
ACTS = {
    "naive": "naive",
    "naive-restart": "naive_restart",
    "lock-only": "lock_only",
    "onejob": "with_onejob",
}


def application(act: str) -> Callable[..., None]:
    """Return what a replica of this act runs."""
    run: Callable[..., None] = _module(act).run
    return run


def direction(act: str) -> Callable[[Any], None]:
    """Return how the act goes: a function of its stage."""
    direct: Callable[[Any], None] = _module(act).direct
    return direct


def _module(act: str) -> Any:
    return import_module(f"onejob.demo.acts.{ACTS[act]}")
