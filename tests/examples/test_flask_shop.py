"""The Flask shop under ``gunicorn --workers 3 --preload``."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from examples.fleet import Fleet, kill
from examples.hosts import ROOT, Hosts, ask, free_port, until

pytestmark = pytest.mark.slow

TABLES = ROOT / "examples" / "flask_shop.sql"


def gunicorn(hosts: Hosts, module: str, *options: str, cwd: Path = ROOT) -> int:
    port = free_port()
    bind = ("--bind", f"127.0.0.1:{port}")
    hosts.start("gunicorn", "--workers", "3", "--preload", *bind, *options, module, cwd=cwd)
    return port


def test_each_report_is_written_once_though_a_web_worker_is_killed(
    postgres_fleet: Fleet, database: str, hosts: Hosts
) -> None:
    """A01, A03: every worker of gunicorn's is a replica, forked from a master that is none."""
    with psycopg.connect(database, autocommit=True) as shop:
        shop.execute(TABLES.read_text().encode())
        config = ("--config", "python:examples.flask_shop")
        port = gunicorn(hosts, "examples.flask_shop:web", *config)
        workers = postgres_fleet.wait_for_replicas(3)
        assert hosts.processes[0].pid not in workers
        postgres_fleet.wait_for_ticks("report", 2)

        kill(postgres_fleet.pid(postgres_fleet.ended("report")[-1].replica or ""))
        until(lambda: len(postgres_fleet.replicas()) == 3, "a new worker in the place of the old")
        for _ in range(3):
            assert ask(port, "/orders/7", "POST")
        postgres_fleet.wait_for_ticks("report", 2)
        postgres_fleet.wait_until_done("report")

        written = [at for (at,) in shop.execute("SELECT fire_time FROM report ORDER BY 1")]
        assert written == [run.fire_time for run in postgres_fleet.ended("report")]
        assert len(written) == postgres_fleet.fire_times("report")
        assert shop.execute("SELECT number, confirmed FROM orders").fetchall() == [(7, 1)]


def test_an_app_that_starts_when_it_is_imported_starts_again_in_each_forked_worker(
    fleet: Fleet, tmp_path: Path, hosts: Hosts
) -> None:
    """A03: threads do not survive a fork; each worker has a live replica of its own.

    The master was one before it forked, in the middle of whatever its threads were doing, and it
    keeps its own lease: no child speaks over its connections.
    """
    (tmp_path / "preloaded.py").write_text(PRELOADED)
    port = gunicorn(hosts, "preloaded:web", cwd=tmp_path)

    pids = fleet.wait_for_replicas(4)

    assert hosts.processes[0].pid in pids, "the master was started by the import"
    before = {replica.pid: replica.id for replica in fleet.replicas()}
    answers = {answer["pid"]: answer for _ in range(40) if (answer := ask(port, "/"))}
    assert answers, "no worker answered"
    for pid, answer in answers.items():
        assert answer == {"running": True, "pid": pid, "id": before[pid]}
    fleet.wait_for_ticks("tick", 3)
    assert {replica.pid: replica.id for replica in fleet.replicas()} == before
    fleet.wait_until_done("tick")
    fleet.fire_times("tick")


PRELOADED = """
import os
from flask import Flask
from onejob import App

app = App(lease="2s")
web = Flask("preloaded")

@app.every("1s", catch_up="all", overlap="allow")
def tick():
    pass

@web.get("/")
def replica():
    status = app.status()
    return {"running": status.running, "pid": os.getpid(), "id": status.replica}

app.start()
"""
