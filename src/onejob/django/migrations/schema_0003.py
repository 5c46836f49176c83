"""The tables at version 3: see ``onejob.django.schema``."""

from __future__ import annotations

from django.db import migrations

from onejob.django.schema import Install


class Migration(migrations.Migration):
    dependencies = [("onejob", "schema_0002")]
    operations = [Install(3)]
