"""Errors of your database stay what your driver raises, and yours to handle."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy as sa

from adapters.conftest import Shop
from adapters.drivers import Session, opened
from onejob.adapters import sqlstate


def until_waiting(url: str, pid: int) -> None:
    """Wait until this session waits for a lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(1_000):
            text = "SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted"
            if connection.execute(text, (pid,)).fetchone():
                return
            time.sleep(0.01)
    raise AssertionError("it waits for nothing")


def deadlocked(shop: Shop, driver: str) -> Exception:
    """Enqueue two keys crosswise in two transactions; return what the driver raised."""
    job = shop.job()

    def enqueue(session: Session, key: str) -> None:
        session.do(job.using(within=session.given, key=key), "enqueue", 1)

    with opened(driver, shop.url) as mine, opened("psycopg", shop.url) as theirs:
        theirs.execute("SET deadlock_timeout = '10s'")
        mine.execute("SET deadlock_timeout = '20ms'")
        enqueue(mine, "a")
        enqueue(theirs, "b")
        waiting = threading.Thread(target=enqueue, args=(theirs, "a"))
        waiting.start()
        # Who begins to wait last finds the deadlock: ours must be the one.
        until_waiting(shop.url, theirs.given.info.backend_pid)
        with pytest.raises(Exception, match="deadlock") as caught:
            enqueue(mine, "b")
        mine.rollback()
        waiting.join()
        theirs.rollback()
    return caught.value


@pytest.mark.parametrize(
    ("driver", "kind"),
    [
        ("psycopg", psycopg.errors.DeadlockDetected),
        ("psycopg2", psycopg2.errors.DeadlockDetected),
        ("asyncpg", asyncpg.DeadlockDetectedError),
        ("sqlalchemy-session-psycopg2", sa.exc.OperationalError),
        ("sqlalchemy-async-session-asyncpg", sa.exc.DBAPIError),
        ("django-alias", None),
    ],
)
def test_a_deadlock_is_the_drivers_own_error(driver: str, kind: Any, postgres_shop: Shop) -> None:
    """Your transaction has been rolled back: only you know what to run again."""
    from django.db import OperationalError

    error = deadlocked(postgres_shop, driver)

    assert isinstance(error, kind or OperationalError)
    assert sqlstate(error) == "40P01"


def test_a_serialisation_failure_is_the_drivers_own_error(postgres_shop: Shop) -> None:
    """A snapshot that is older than the run which holds the key cannot see it."""
    job = postgres_shop.job()

    async def scenario() -> None:
        connection = await asyncpg.connect(postgres_shop.url)
        try:
            async with connection.transaction(isolation="repeatable_read"):
                await connection.execute("SELECT 1")
                await asyncio.to_thread(job.using(key="img-7").enqueue, 7)
                await job.using(key="img-7", within=connection).aenqueue(7)
        finally:
            await connection.close()

    with pytest.raises(asyncpg.SerializationError):
        asyncio.run(scenario())


DJANGO_OVER_PSYCOPG2 = """
import sys
sys.modules["psycopg"] = None          # as where only psycopg2 is installed: Django then takes it
import django
from django.conf import settings
url, schema = sys.argv[1:]
from sqlalchemy import make_url
parts = make_url(url)
settings.configure(LOGGING_CONFIG=None, DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": parts.database, "USER": parts.username or "",
    "HOST": parts.host, "PORT": str(parts.port or "")}})
django.setup()
from django.db import connection, transaction
with connection.cursor() as cursor:
    cursor.execute("SELECT 1")
del sys.modules["psycopg"]             # onejob's own store needs it
from onejob import App, transaction_lock
app = App(url, schema=schema, name="shop")
job = app.job(name="django-psycopg2")(lambda image_id: None)
try:
    with transaction.atomic():
        assert job.using(within="default", key="img-1").enqueue(image_id=1).created
        raise KeyError
except KeyError:
    pass
with transaction.atomic():
    assert transaction_lock(connection, "nightly")
    kept = job.using(within="default", key="img-1").enqueue(image_id=1)
    assert app.first("digest", "django-psycopg2", within=connection)
    assert not job.using(within="default", key="img-1").enqueue(image_id=1).created
assert kept.created
assert [run.id for run in app.runs.find(job="django-psycopg2")] == [kept.run_id]
assert type(connection.connection).__module__ == "psycopg2.extensions"
app.close()
print("fine")
"""


@pytest.mark.slow
def test_django_over_psycopg2_joins_as_well(postgres_shop: Shop) -> None:
    arguments = [postgres_shop.url, postgres_shop.app.schema]
    done = subprocess.run(
        [sys.executable, "-c", DJANGO_OVER_PSYCOPG2, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr
