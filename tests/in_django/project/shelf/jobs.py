from django.db import transaction

from onejob import Run
from onejob.django import app
from shelf.models import Book


@app.job()
def buy(run: Run, title: str) -> str:
    """Write a book in the run's own transaction, and complete the run in it."""
    with transaction.atomic(using=app.alias):
        run.fence(within=app.alias)
        if run.first("buy", within=app.alias):
            Book.objects.using(app.alias).create(title=title)
    return title


@app.job()
async def abuy(title: str) -> None:
    await Book.objects.using(app.alias).acreate(title=title)


@app.job()
def write(run: Run, title: str) -> None:
    def unit(connection) -> None:
        connection.execute("INSERT INTO shelf_book (title) VALUES ('unit')")

    run.transact(unit, complete=True)


@app.job()
def charge(run: Run, number: int) -> str:
    return run.effect(f"card-{number}", lambda: f"receipt {number}")


@app.every("1h")
def tidy() -> None: ...
