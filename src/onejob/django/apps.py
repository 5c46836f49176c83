"""The entry in INSTALLED_APPS. It finds the project's jobs, and opens and starts nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from django.apps import AppConfig
from django.conf import settings
from django.core.signals import request_started
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

TASKS_BACKEND: Final = "onejob.django.tasks.OnejobBackend"


class OnejobConfig(AppConfig):
    """``INSTALLED_APPS = [..., "onejob.django"]``."""

    name = "onejob.django"
    label = "onejob"
    verbose_name = "Background jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import each app's jobs, and wait for what may come: migrations, requests."""
        from onejob.django import app, models

        models.place(app)
        post_migrate.connect(write_ahead, sender=self, dispatch_uid="onejob.write_ahead")
        if app.configuration.start:
            request_started.connect(start_here, dispatch_uid="onejob.start")
        for module in (*app.configuration.modules, *_of_tasks()):
            autodiscover_modules(module)


def _of_tasks() -> list[str]:
    """Return what else to import from each app, where tasks are ours: what is not known is parked.

    Modules that OPTIONS names are imported right here.
    """
    ours = [
        backend.get("OPTIONS", {})
        for backend in getattr(settings, "TASKS", {}).values()
        if backend.get("BACKEND") == TASKS_BACKEND
    ]
    for options in ours:
        for name in options.get("modules", ()):
            import_module(name)
    return ["tasks"] if ours else []


def start_here(**_: Any) -> None:
    """Make this web process a replica, at its first request."""
    from onejob.django import app

    request_started.disconnect(dispatch_uid="onejob.start")
    app.start()


def write_ahead(using: str, **_: Any) -> None:
    """Put a SQLite file into WAL, outside the transactions of migrations, where it cannot be."""
    from onejob.django import app

    connection = connections[using]
    if using == app.alias and connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode = WAL")
