"""``onejob doctor`` and the other commands on Redis: what the server keeps, and what it lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onejob.cli import redis_checks


def onejob(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("onejob")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize(
    ("told", "ok"),
    [
        ({"aof_enabled": 1}, True),
        ({"aof_enabled": 1, "aof_last_write_status": "err"}, False),
        ({"aof_enabled": 0}, False),
    ],
)
def test_what_a_restart_forgets_is_said(told: dict[str, Any], ok: bool) -> None:
    """C10"""
    assert redis_checks.persistence(told).ok is ok


@pytest.mark.parametrize(
    ("told", "ok"),
    [
        ({"maxmemory": 0, "maxmemory_policy": "allkeys-lru"}, True),
        ({"maxmemory": 1 << 30, "maxmemory_policy": "noeviction"}, True),
        ({"maxmemory": 1 << 30, "maxmemory_policy": "volatile-ttl"}, False),
    ],
)
def test_a_server_that_may_drop_a_held_lock_fails_the_check(told: dict[str, Any], ok: bool) -> None:
    assert redis_checks.eviction(told).ok is ok


def test_what_a_failover_may_lose_is_counted() -> None:
    """C10"""
    told = {"role": "master", "master_repl_offset": 5_000_000, "slave0": {"offset": 4_999_000}}
    near = redis_checks.replication(told)
    far = redis_checks.replication({**told, "slave1": {"offset": 10}})

    assert near.ok
    assert "1 replicas, up to 1,000 bytes behind" in near.detail
    assert not far.ok
    assert redis_checks.replication({"role": "master"}).ok
    assert not redis_checks.replication({"role": "slave"}).ok


@pytest.mark.slow
def test_the_doctor_asks_the_server_what_it_keeps(redis_url: str, redis_schema: str) -> None:
    done = onejob("doctor", "--url", redis_url, "--schema", redis_schema, "--json")

    found = {check["name"]: check["ok"] for check in json.loads(done.stdout)["checks"]}
    assert found.keys() == {"connection", "clock", "persistence", "eviction", "replication"}
    assert found["connection"]
    assert done.returncode == (0 if all(found.values()) else 1)


@pytest.mark.slow
def test_there_is_nothing_to_install_and_what_is_missing_is_said(
    redis_url: str, redis_schema: str
) -> None:
    store = ("--url", redis_url, "--schema", redis_schema)

    assert onejob("init", *store).returncode == 0
    runs = onejob("runs", *store)
    assert runs.returncode != 0
    assert "Redis cannot" in runs.stderr
    assert "Traceback" not in runs.stderr
