"""The tables at version 1: see ``onejob.django.schema``."""

from __future__ import annotations

from django.db import migrations

from onejob.django.schema import Install


class Migration(migrations.Migration):
    dependencies: list[tuple[str, str]] = []
    operations = [Install(1)]
