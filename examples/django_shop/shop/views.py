"""Views; each is one transaction (ATOMIC_REQUESTS)."""

import os

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from onejob.django import app
from shop.jobs import confirm
from shop.models import Order


@require_POST
def order(request: HttpRequest, number: int) -> JsonResponse:
    """Take an order. Sent twice, by an impatient customer or a proxy, it is one order."""
    Order.objects.get_or_create(number=number)
    asked = confirm.using(key=f"order-{number}").enqueue(number=number)
    return JsonResponse({"run": asked.run_id, "new": asked.created}, status=202)


@require_POST
def refused(request: HttpRequest, number: int) -> JsonResponse:
    """Fail after enqueueing: neither the order nor the run is ever there."""
    Order.objects.create(number=number)
    confirm.using(key=f"order-{number}").enqueue(number=number)
    raise ValueError("the card was refused")


def replica(request: HttpRequest) -> JsonResponse:
    status = app.status()
    return JsonResponse({"running": status.running, "text": str(status), "pid": os.getpid()})
