"""The shop's jobs. Both write in the database where the run is: exactly once."""

import os

from django.db import transaction
from django.db.models import F

from onejob import Run
from onejob.django import app
from shop.models import Order, Report


@app.every(os.environ.get("EXAMPLE_EVERY", "1h"), catch_up="all", overlap="allow")
def report(run: Run) -> None:
    with transaction.atomic():
        run.fence(within="default", complete=True)  # commits only while this attempt is valid
        Report.objects.create(fire_time=run.fire_time, orders=Order.objects.count())


@app.job()
def confirm(run: Run, number: int) -> None:
    with transaction.atomic():
        run.fence(within="default", complete=True)
        Order.objects.filter(number=number).update(confirmed=F("confirmed") + 1)
