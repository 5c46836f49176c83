"""Orders, and a report on them for each fire time."""

from django.db import models


class Order(models.Model):
    number = models.IntegerField(unique=True)
    confirmed = models.IntegerField(default=0)


class Report(models.Model):
    fire_time = models.DateTimeField()
    orders = models.IntegerField()
