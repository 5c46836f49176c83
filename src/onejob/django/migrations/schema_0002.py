"""The tables at version 2: see ``onejob.django.schema``."""

from __future__ import annotations

from django.db import migrations

from onejob.django.schema import Install


class Migration(migrations.Migration):
    dependencies = [("onejob", "admin_0001")]
    operations = [Install(2)]
