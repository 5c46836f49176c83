"""PostgreSQL's advisory lock on the caller's transaction, whatever drives the connection."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session as OrmSession

import onejob
from adapters.conftest import Shop
from adapters.counting import Counting
from adapters.drivers import POSTGRESQL, Session, opened
from onejob import UnsupportedByStore, UsageError, advisory_key, atransaction_lock, transaction_lock

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "advisory-locks.md"

#: Pinned: other languages, and replicas of earlier releases, compute these. Never change one.
GOLDEN = {
    ("nightly", ""): -1864142320913996910,
    ("nightly", "shop"): 5006417649712400216,
    ("nightly", "shop2"): -2295944646860728868,
    ("Größe 🕰", "kasse"): 2331851426203873028,
    ("842001", ""): 3321030175284200568,
    ("a" * 1024, ""): -1910057460922266084,
}


@pytest.fixture(params=POSTGRESQL)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def name() -> str:
    return f"nightly-{secrets.token_hex(4)}"


@pytest.fixture
def other(postgres_url: str) -> Iterator[Any]:
    """Another session, that of a service which knows nothing of onejob."""
    with psycopg.connect(postgres_url) as connection:
        yield connection
        connection.rollback()


def lock(session: Session, name: str | int, **options: Any) -> bool:
    """Ask in the driver's colour."""
    session.begin()
    if hasattr(session, "bridge"):
        return bool(session.carry(session.raw.run_sync(lambda s: transaction_lock(s, name))))
    ask = transaction_lock if session.colour == "sync" else atransaction_lock
    return bool(session.call(lambda: ask(session.given, name, **options)))


def free(other: Any, key: int) -> bool:
    """Tell whether another session could have it now, without keeping it."""
    [(got,)] = other.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)).fetchall()
    other.rollback()
    return bool(got)


def left_behind(other: Any, key: int) -> int:
    text = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = %s"
    [(count,)] = other.execute(text, (key & 0xFFFFFFFF,)).fetchall()
    other.rollback()
    return int(count)


def test_the_lock_is_held_to_the_end_of_the_transaction(
    session: Session, other: Any, name: str
) -> None:
    """C13, C16: commit and rollback release it; no row of pg_locks outlives either."""
    key = advisory_key(name)

    for end in (session.commit, session.rollback):
        assert lock(session, name)
        assert not free(other, key)
        end()
        assert free(other, key)
        assert left_behind(other, key) == 0


def test_a_lock_that_another_session_holds_is_refused_at_once(
    session: Session, other: Any, name: str
) -> None:
    """An int is the lock's number itself, so code that people have takes the same lock."""
    number = advisory_key(name)
    other.execute("SELECT pg_advisory_xact_lock(%s)", (number,))

    refused = (lock(session, name), lock(session, number))
    other.rollback()

    assert refused == (False, False)
    assert lock(session, number)
    session.rollback()


def test_it_costs_one_statement_and_one_round_trip(
    driver: str, postgres_shop: Shop, name: str
) -> None:
    """E10: the second time; the first time a driver may have the text prepared in one more."""
    with Counting(postgres_shop.url) as counting, opened(driver, counting.url) as session:
        assert lock(session, name)
        counting.reset()
        assert lock(session, f"{name}-2")
        assert (counting.statements, counting.round_trips) == (1, 1)
        session.rollback()


def test_a_hundred_rounds_over_a_pool_leave_no_lock(postgres_url: str, name: str) -> None:
    """C15: each round on whichever connection the pool lends; none is left locked."""
    engine = sa.create_engine(sa.make_url(postgres_url).set(drivername="postgresql+psycopg"))

    got = []
    for _ in range(100):
        with engine.begin() as connection:
            got.append(transaction_lock(connection, name))
    held = engine.connect()
    assert transaction_lock(held, name)
    held.invalidate()  # as a server does that loses us
    held.close()

    with psycopg.connect(postgres_url) as other:
        deadline = 50
        while left_behind(other, advisory_key(name)) and (deadline := deadline - 1):
            other.execute("SELECT pg_sleep(0.02)")
        assert left_behind(other, advisory_key(name)) == 0
    engine.dispose()
    assert all(got)


def test_names_in_two_namespaces_are_two_locks(postgres_url: str, other: Any) -> None:
    """C21, C26: two installations in one database do not block each other."""
    with psycopg.connect(postgres_url) as connection:
        assert transaction_lock(connection, "nightly", "shop")
        assert transaction_lock(other, "nightly", "shop-test")
        assert not transaction_lock(other, "nightly", "shop")


def test_no_lock_of_a_session_is_taken_anywhere() -> None:
    """C12: behind a pooler its unlock goes to another server connection, and the lock stays."""
    taking = re.compile(r"pg_(try_)?advisory_lock(_shared)?\(")
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.sql")]
    # The scanner looks for it in others' code, and so has to name it.
    sources = [path for path in sources if "scan" not in path.parts]

    assert taking.search("SELECT pg_advisory_lock(1)")
    assert [path.name for path in sources if taking.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_whoever_is_refused_is_told_of_a_lock_that_is_held_for_long(
    session: Session, other: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C24: a transaction around long work pins a connection, and old rows with it."""
    assert transaction_lock(other, name)
    other.execute("SELECT pg_sleep(0.03)")

    with caplog.at_level(logging.WARNING, "onejob"):
        assert not lock(session, name)
        assert caplog.messages == []
        assert not lock(session, name, warn_after="20ms")

    assert re.search(r"held by a transaction that has been open for \d\.\d s", caplog.text)
    assert "Use app.lock for long work" in caplog.text
    session.rollback()


def test_the_key_of_a_name_never_changes() -> None:
    """C22: replicas of two releases, and other languages, must take the same lock."""
    assert {names: advisory_key(*names) for names in GOLDEN} == GOLDEN


def test_a_hundred_thousand_names_have_as_many_keys() -> None:
    """C20: 64 bits of a cryptographic hash; folded 32-bit keys collide at this size."""
    keys = {advisory_key(f"customer-{n}") for n in range(100_000)}

    assert len(keys) == 100_000
    assert min(keys) < 0 < max(keys)
    assert all(-(2**63) <= key < 2**63 for key in keys)


def test_the_page_pins_the_same_vectors() -> None:
    """C22"""
    text = PAGE.read_text("utf-8")

    for (name, namespace), key in GOLDEN.items():
        if len(name) < 100:
            shown = f"`{namespace}`" if namespace else "none"
            assert f"| `{name}` | {shown} | {key} |" in text


def test_the_sql_function_of_the_page_computes_the_same(postgres_url: str, schema: str) -> None:
    """C22: a migration of a service in any language can use it."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET LOCAL search_path = {schema}")
        connection.execute(snippet("sql").encode())
        for (name, namespace), key in GOLDEN.items():
            found = connection.execute("SELECT advisory_key(%s, %s)", (name, namespace)).fetchone()
            assert found == (key,)
        connection.rollback()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not on this machine")
def test_the_node_snippet_of_the_page_computes_the_same() -> None:
    """C22"""
    calls = "\n".join(
        f"console.log(String(advisoryKey({json_text(name)}, {json_text(namespace)})))"
        for name, namespace in GOLDEN
    )
    done = subprocess.run(
        ["node", "-e", f"{snippet('javascript')}\n{calls}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert [int(line) for line in done.stdout.split()] == list(GOLDEN.values())


@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java compiler on this machine")
def test_the_java_snippet_of_the_page_computes_the_same(tmp_path: Path) -> None:
    """C22"""
    calls = "\n".join(
        f"System.out.println(advisoryKey({json_text(name)}, {json_text(namespace)}));"
        for name, namespace in GOLDEN
    )
    source = tmp_path / "Key.java"
    main = f"public static void main(String[] a) throws Exception {{\n{calls}\n}}"
    source.write_text(f"class Key {{\n{snippet('java')}\n{main}\n}}", "utf-8")
    done = subprocess.run(["java", str(source)], capture_output=True, text=True, check=True)

    assert [int(line) for line in done.stdout.split()] == list(GOLDEN.values())


def json_text(value: str) -> str:
    return json.dumps(value)


def snippet(language: str) -> str:
    """Return the page's block in this language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert found is not None, language
    return found[1]


@pytest.mark.parametrize(
    ("name", "namespace", "words"),
    [
        ("", "", "is blank"),
        (" nightly", "", "has space around it"),
        ("a\0b", "", "NUL"),
        ("x" * 1025, "", "the limit is 1,024"),
        ("nightly", " ", "namespace"),
        (True, "", "must be text, or an int"),
        (1.5, "", "must be text, or an int"),
        (2**63, "", "no bigint"),
        (-(2**63) - 1, "", "no bigint"),
        (842_001, "shop", "is the lock's number itself"),
    ],
)
def test_a_name_that_names_no_lock_is_refused(name: Any, namespace: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        transaction_lock(object(), name, namespace)


def test_the_least_and_the_most_bigint_are_numbers_of_locks(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert all(transaction_lock(connection, key) for key in (-(2**63), 2**63 - 1, 0, -1))


def test_a_connection_that_is_in_no_transaction_is_refused(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        with pytest.raises(UsageError, match=r"transaction_lock got.*connection\.transaction\(\)"):
            transaction_lock(connection, "nightly")
        with connection.transaction():
            assert transaction_lock(connection, "nightly")
    with pytest.raises(UsageError, match=r"transaction_lock got.*closed"):
        transaction_lock(connection, "nightly")
    with pytest.raises(UsageError, match=r"transaction_lock cannot use a builtins\.object"):
        transaction_lock(object(), "nightly")


def test_a_transaction_that_has_failed_is_told_so(postgres_shop: Shop) -> None:
    with opened("asyncpg", postgres_shop.url) as session:
        session.begin()
        with pytest.raises(Exception, match="division by zero"):
            session.execute("SELECT 1 / 0")
        with pytest.raises(UsageError, match="has failed already"):
            lock(session, "nightly")
        session.rollback()


def test_the_wrong_colour_is_refused(postgres_url: str) -> None:
    async def scenario() -> None:
        connection = await psycopg.AsyncConnection.connect(postgres_url)
        async with connection:
            with pytest.raises(UsageError, match="atransaction_lock"):
                transaction_lock(connection, "nightly")

    asyncio.run(scenario())
    with (
        psycopg.connect(postgres_url) as connection,
        pytest.raises(UsageError, match=r"onejob\.transaction_lock\(\.\.\.\) in its thread"),
    ):
        asyncio.run(atransaction_lock(connection, "nightly"))


def test_databases_whose_locks_are_no_transactions_say_what_to_use(tmp_path: Path) -> None:
    """GET_LOCK outlives a COMMIT; SQLite's one write lock refuses every other name as well."""
    lite = sqlite3.connect(tmp_path / "db")
    mysql = pymysql.connections.Connection(defer_connect=True)
    engine = sa.create_engine("mysql+pymysql://root@127.0.0.1/test")

    for connection, words in (
        (lite, "sqlite cannot.*one write lock.*app.lock"),
        (mysql, "mysql cannot.*GET_LOCK.*app.lock"),
        (OrmSession(engine), "mysql cannot.*GET_LOCK.*app.lock"),
    ):
        with pytest.raises(UnsupportedByStore, match=words):
            transaction_lock(connection, "nightly")
    lite.close()
    engine.dispose()


def test_the_three_names_are_public() -> None:
    assert {"advisory_key", "transaction_lock", "atransaction_lock"} <= set(onejob.__all__)
