"""Servers and places for all tests.

The servers belong to the test run: its first process finds or starts them and ends them, also on
Ctrl-C. pytest-xdist's workers are told the answer and make a database of their own in it.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg import sql

# The suite is a library; its assertions are to explain themselves as those of a test file do. Said
# here, before any folder's tests import it.
pytest.register_assert_rewrite("onejob.testing.conformance")

from servers import (  # noqa: E402
    KAFKA,
    MARIADB,
    NATS,
    POSTGRES,
    RABBITMQ,
    REDIS,
    SERVERS,
    Absent,
    Running,
    Server,
)
from servers.mariadb import drop_tables  # noqa: E402
from servers.postgres import create_database  # noqa: E402

# What the run's first process has found out, by server; workers read it from the environment.
ANSWERS: dict[str, Running | Absent] = {}
TOLD = "ONEJOB_TEST_SERVERS_TOLD"
# In the name of all that this test run makes on a server; the same in the run's every process.
SESSION = os.environ.setdefault("ONEJOB_TEST_SESSION", f"onejob_test_{secrets.token_hex(4)}")


def pytest_configure(config: pytest.Config) -> None:
    if is_worker(config):
        for name, (kind, fields) in json.loads(os.environ[TOLD]).items():
            ANSWERS[name] = Running(**fields) if kind == "running" else Absent(**fields)
        return
    # A terminated test run ends its servers, as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if config.getoption("numprocesses", None) and not config.getoption("collectonly"):
        # Workers collect for themselves, so who will ask is not known here: start them all.
        for server in SERVERS:
            ask(server)
        os.environ[TOLD] = json.dumps(
            {
                name: ("running" if isinstance(found, Running) else "absent", asdict(found))
                for name, found in ANSWERS.items()
            }
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two a core: most tests wait, for a disk or for a lease to end, more than they work."""
    return 2 * (os.cpu_count() or 1)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not is_worker(config):
        for server in SERVERS:
            server.stop()


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def ask(server: Server) -> Running | Absent:
    """Find or start a server once in a test run."""
    if server.name not in ANSWERS:
        ANSWERS[server.name] = server.start(session=SESSION)
    return ANSWERS[server.name]


def needed(server: Server) -> Running:
    """Return the server, or end the test: skipped on a laptop, failed where CI promises it."""
    match ask(server):
        case Running() as running:
            return running
        case Absent() as absent:
            text = f"not run: {server.name} (install {absent.advice})"
            if stores_are_required():
                pytest.fail("\n".join([text, *absent.tried]), pytrace=False)
            pytest.skip(text)


def stores_are_required() -> bool:
    return bool(os.environ.get("CI") or os.environ.get("ONEJOB_REQUIRE_STORES"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [f"SQLite {sqlite3.sqlite_version}: in this process"]
    for server in SERVERS:
        match ANSWERS.get(server.name):
            case None:
                lines.append(f"{server.name}: no test asked for it")
            case Running() as running:
                lines.append(f"{server.name} {running.version}: {running.origin}")
            case Absent() as absent:
                lines.append(f"not run: {server.name} (install {absent.advice})")
                lines += [f"    {tried}" for tried in absent.tried]
    terminalreporter.section("stores")
    for line in lines:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """A database of this process's own; dropped when the test run ends."""
    return create_database(needed(POSTGRES).url, f"{SESSION}_{os.getpid()}")


@pytest.fixture
def schema(postgres_url: str) -> Iterator[str]:
    """The name of a PostgreSQL schema that no other test uses; what was made in it is dropped."""
    name = f"t_{secrets.token_hex(6)}"
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '5s'")
        try:
            connection.execute(
                sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
            )
        except psycopg.errors.LockNotAvailable:
            # A transaction that the test left open; the database is dropped with it at the end.
            pass


@pytest.fixture(scope="session")
def redis_url() -> str:
    """A database on a Redis server, shared: use keys under ``redis_schema`` only."""
    return needed(REDIS).url


@pytest.fixture
def redis_schema(redis_url: str) -> Iterator[str]:
    """A prefix of keys that no other test uses; what stands under it is deleted."""
    name = f"t_{secrets.token_hex(6)}"
    yield name
    with redis.Redis.from_url(redis_url) as client:
        for key in client.scan_iter(f"{{{name}}}:*", count=1_000):
            client.delete(key)


@pytest.fixture(scope="session")
def mariadb_url() -> str:
    """A database on a MariaDB server, shared: use tables under ``mariadb_schema`` only."""
    return needed(MARIADB).url


@pytest.fixture
def mariadb_schema(mariadb_url: str) -> Iterator[str]:
    """A prefix of tables that no other test uses; what stands under it is dropped."""
    name = f"t_{secrets.token_hex(6)}"
    yield name
    drop_tables(mariadb_url, name)


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    """A RabbitMQ server, shared: use queues of the test's own name only, and delete them."""
    return needed(RABBITMQ).url


@pytest.fixture(scope="session")
def nats_url() -> str:
    """A NATS server with JetStream, shared: use streams of the test's own, and delete them."""
    return needed(NATS).url


@pytest.fixture(scope="session")
def kafka_url() -> str:
    """A broker that speaks Kafka's protocol, shared, as HOST:PORT: use topics of the test's own."""
    return needed(KAFKA).url


@pytest.fixture(scope="session")
def sqs_url() -> Iterator[str]:
    """Where moto plays SQS, in this process: use queues of the test's own."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that doesn't exist yet."""
    return f"sqlite:///{tmp_path / 'onejob.db'}"
