"""onejob in a Django project: one App over the project's own database.

    INSTALLED_APPS = [..., "onejob.django"]
    ONEJOB = {"DATABASE": "default"}        # and SCHEMA, NAME, LEASE ...: see ``configuration``

    from onejob.django import app           # in jobs.py of any installed app

``app`` is built from the settings when it is first asked for, and opens nothing.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onejob.django.application import DjangoApp

    app: DjangoApp

__all__ = ["app"]

_building = threading.Lock()


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _building:
        if "app" not in globals():
            from onejob.django.application import DjangoApp

            globals()["app"] = DjangoApp()
        return globals()["app"]
