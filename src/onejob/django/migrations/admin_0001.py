"""What Django keeps in mind of the models over our views: nothing of it is in the database.

Of a model that is not managed it compares the options and no fields, so only the key is written.
"""

from __future__ import annotations

from django.db import migrations, models


def _view(name: str, key: str, field: models.Field, *permissions: tuple[str, str]) -> object:
    return migrations.CreateModel(
        name=name,
        fields=[(key, field)],
        options={
            "managed": False,
            "default_permissions": ("view",),
            "permissions": list(permissions),
        },
    )


class Migration(migrations.Migration):
    dependencies = [("onejob", "schema_0001")]
    operations = [
        _view(
            "Run",
            "id",
            models.BigIntegerField(primary_key=True),
            ("retry_run", "Can retry runs"),
            ("cancel_run", "Can cancel runs"),
        ),
        _view(
            "Schedule",
            "name",
            models.TextField(primary_key=True),
            ("pause_schedule", "Can pause and resume schedules"),
        ),
        _view(
            "Effect",
            "token",
            models.BigIntegerField(primary_key=True),
            ("resolve_effect", "Can say what became of unknown effects"),
        ),
    ]
