"""The public views of onejob as models: for the admin and for queries, never written to.

They are not managed: the views are there once the tables are. What a view shows, and how it is
called in which database, is settled when the project is set up: its schema is a setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections, models

if TYPE_CHECKING:
    from onejob.django.application import DjangoApp


class Run(models.Model):
    """A run, live or ended; a retried one has a row for each end, told apart by its token."""

    id = models.BigIntegerField(primary_key=True)
    job = models.TextField()
    key = models.TextField()
    state = models.TextField()
    outcome = models.TextField(null=True)
    attempt = models.IntegerField()
    deaths = models.IntegerField()
    interrupted = models.IntegerField()
    token = models.BigIntegerField()
    replica = models.TextField()
    queue = models.TextField()
    priority = models.IntegerField()
    due = models.DateTimeField()
    started = models.DateTimeField(null=True)
    ended = models.DateTimeField(null=True)
    error = models.TextField(null=True)
    progress = models.TextField(null=True)
    schedule = models.TextField(null=True)
    fire_time = models.DateTimeField(null=True)

    class Meta:
        managed = False
        default_permissions = ("view",)
        permissions = [("retry_run", "Can retry runs"), ("cancel_run", "Can cancel runs")]

    def __str__(self) -> str:
        return f"{self.job} {self.key}"


class Schedule(models.Model):
    """A schedule: what fires when."""

    name = models.TextField(primary_key=True)
    job = models.TextField()
    timing = models.TextField()
    last_fire_time = models.DateTimeField(null=True)
    next_fire_time = models.DateTimeField(null=True)
    paused = models.BooleanField()
    broken = models.TextField(null=True)

    class Meta:
        managed = False
        default_permissions = ("view",)
        permissions = [("pause_schedule", "Can pause and resume schedules")]

    def __str__(self) -> str:
        return str(self.name)


class Effect(models.Model):
    """An effect; the token of its claim is its own, and no other's."""

    token = models.BigIntegerField(primary_key=True)
    scope = models.TextField()
    key = models.TextField()
    state = models.TextField()
    owner = models.TextField()
    run_id = models.BigIntegerField()
    attempt = models.IntegerField()
    claimed = models.DateTimeField(null=True)
    error = models.TextField(null=True)

    class Meta:
        managed = False
        default_permissions = ("view",)
        permissions = [("resolve_effect", "Can say what became of unknown effects")]

    def __str__(self) -> str:
        return f"{self.scope} {self.key}"


_VIEWS: dict[type[models.Model], str] = {Run: "runs", Schedule: "schedules", Effect: "effects"}


def place(app: DjangoApp) -> None:
    """Point the models at the views of the project's schema.

    After the classes are made, so that migrations do not hear of it: they would change with the
    settings.
    """
    for model, view in _VIEWS.items():
        postgresql = not app.alias or connections[app.alias].vendor == "postgresql"
        # Django quotes a name unless it is quoted already.
        name = f'"{app.schema}"."{view}"' if postgresql else f"{app.schema}_{view}"
        model._meta.db_table = name
