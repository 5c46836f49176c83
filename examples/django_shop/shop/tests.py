"""How a project tests what it enqueues: ``python manage.py test``."""

from django.test import TestCase

from onejob.django.testing import enqueued
from shop.models import Order


class OrderTests(TestCase):
    def test_an_order_is_confirmed_once_though_it_is_sent_twice(self) -> None:
        with enqueued() as runs:
            self.client.post("/orders/7/")
            self.client.post("/orders/7/")

        self.assertEqual([(run.job, run.key) for run in runs], [("confirm", "order-7")])
        self.assertEqual(runs.args(), {"number": 7})

        runs.perform()

        self.assertEqual(Order.objects.get(number=7).confirmed, 1)

    def test_a_view_that_fails_enqueues_nothing(self) -> None:
        with enqueued() as runs, self.assertRaises(ValueError):
            self.client.post("/refused/8/")

        self.assertEqual(list(runs), [])
