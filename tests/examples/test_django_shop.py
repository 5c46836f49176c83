"""The Django shop under ``gunicorn --workers 3``, on a database that its migrations have made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from examples.fleet import Fleet, kill
from examples.hosts import ROOT, Hosts, ask, free_port, until
from onejob import App

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SHOP = ROOT / "examples" / "django_shop"


def environment(database: str) -> dict[str, str]:
    parts = urlsplit(database)
    return {
        "PGDATABASE": parts.path.lstrip("/"),
        "PGUSER": parts.username or "",
        "PGPASSWORD": parts.password or "",
        "PGHOST": parts.hostname or "",
        "PGPORT": str(parts.port or 5432),
        "PYTHONPATH": str(ROOT / "src"),
    }


def manage(database: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=SHOP,
        env={**os.environ, **environment(database)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def shop(database: str, hosts: Hosts) -> Iterator[Fleet]:
    manage(database, "migrate", "--verbosity", "0")
    hosts.environment |= environment(database)
    app = App(database, name="onlooker")
    app.check()
    yield Fleet(app)
    app.close()


def test_each_report_is_written_once_and_a_view_that_fails_enqueues_nothing(
    shop: Fleet, database: str, hosts: Hosts
) -> None:
    """A01, A03: three web workers, one killed; rows and runs of a request commit together."""
    port = free_port()
    bind = ("--bind", f"127.0.0.1:{port}")
    hosts.start("gunicorn", "--workers", "3", *bind, "wsgi", cwd=SHOP)
    shop.wait_for_replicas(3)
    shop.wait_for_ticks("report", 2)

    kill(shop.pid(shop.ended("report")[-1].replica or ""))
    until(lambda: len(shop.replicas()) == 3, "a new worker in the place of the old")
    for _ in range(3):
        assert ask(port, "/orders/7/", "POST")
    with pytest.raises(ValueError, match="Expecting value"):  # the page of an error, no JSON
        ask(port, "/refused/8/", "POST")
    shop.wait_for_ticks("report", 2)
    shop.wait_until_done("report")
    until(lambda: shop.app.runs.find(job="confirm", state="ended"), "the order's confirmation")

    with psycopg.connect(database) as rows:
        written = [at for (at,) in rows.execute("SELECT fire_time FROM shop_report ORDER BY 1")]
        orders = rows.execute("SELECT number, confirmed FROM shop_order").fetchall()
    assert written == [run.fire_time for run in shop.ended("report")]
    assert len(written) == shop.fire_times("report")
    assert orders == [(7, 1)]
    assert [run.key for run in shop.app.runs.find(job="confirm")] == ["order-7"]


def test_the_tests_of_the_example_pass(database: str) -> None:
    assert "Ran 2 tests" in manage(database, "test", "--verbosity", "1")
