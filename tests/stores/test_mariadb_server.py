"""MariaDB as a server: tables, transactions that it ends, connections that it closes, errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from onejob.commands import claims, fences, leases, runs
from onejob.core.run import Token
from onejob.core.time import HOUR, SECOND, Span
from onejob.errors import LeaseLost, SchemaMismatch, StoreUnavailable, UnsupportedByStore
from onejob.stores import mariadb_errors
from onejob.stores.mariadb import MariadbStore
from servers.mariadb import drop_tables, free_port
from stores.mariadb_given import TTL, Connect, ask, check, grip, killed, rows, taken, users


@pytest.fixture
def user(mariadb_url: str) -> Iterator[Connect]:
    yield from users(mariadb_url)


@pytest.mark.slow
def test_a_transaction_that_sits_idle_for_too_long_is_rolled_back_and_says_so(
    mariadb_store: MariadbStore, user: Connect
) -> None:
    """C27: nothing of it was written."""
    text = f"DELETE FROM {mariadb_store.catalogue.prefix}fence"
    assert mariadb_store.run(check(7))

    def too_long() -> None:
        with mariadb_store.transaction(longest=Span(SECOND)) as connection:
            rows(connection, text)
            time.sleep(1.8)

    with pytest.raises(LeaseLost, match="Nothing was written"):
        too_long()
    assert mariadb_store.run(fences.known("shop", "x")) == 7


def test_a_transaction_whose_connection_was_killed_is_lost_and_leaves_nothing(
    mariadb_store: MariadbStore, user: Connect
) -> None:
    text = f"DELETE FROM {mariadb_store.catalogue.prefix}fence"
    assert mariadb_store.run(check(7))

    def struck() -> None:
        with mariadb_store.transaction(longest=TTL) as connection:
            rows(connection, text)
            killed(user, connection)
            rows(connection, "SELECT 1")

    with pytest.raises(LeaseLost, match="Nothing was written"):
        struck()
    assert mariadb_store.run(fences.known("shop", "x")) == 7


def test_a_transaction_commits_at_its_end_and_rolls_back_when_its_block_raises(
    mariadb_store: MariadbStore,
) -> None:
    """The error is the block's own."""
    text = f"DELETE FROM {mariadb_store.catalogue.prefix}fence"
    assert mariadb_store.run(check(7))

    def failing() -> None:
        with mariadb_store.transaction(longest=TTL) as connection:
            rows(connection, text)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert mariadb_store.run(fences.known("shop", "x")) == 7

    with mariadb_store.transaction(longest=TTL) as connection:
        rows(connection, text)

    assert mariadb_store.run(fences.known("shop", "x")) is None


def test_connections_that_the_server_has_closed_are_opened_anew(
    mariadb_store: MariadbStore, user: Connect
) -> None:
    """C27: of the pool, and of a keeper."""
    held = taken(mariadb_store, "a")
    lane = mariadb_store.lane(patience=TTL)
    with mariadb_store._connections.lend() as pooled, lane._connections.lend() as own:
        opened = [pooled, own]
    killed(user, *opened)

    assert lane.run(leases.renew([(grip(held), TTL)])) == {"a"}
    assert mariadb_store.run(leases.release(grip(held)))
    lane.close()


def test_the_tables_may_be_made_by_many_at_once_and_again(
    mariadb_url: str, mariadb_schema: str
) -> None:
    """Several machines run ``onejob init`` at one deployment."""
    failed: list[BaseException] = []

    def init() -> None:
        store = MariadbStore(mariadb_url, schema=mariadb_schema)
        try:
            store.init()
        except Exception as error:  # noqa: BLE001 - told below
            failed.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=init) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    store = MariadbStore(mariadb_url, schema=mariadb_schema)
    assert failed == []
    assert store.init().applied == ()
    store.check()
    store.close()


def test_the_printed_schema_makes_the_same_tables(
    mariadb_url: str, mariadb_schema: str, user: Connect
) -> None:
    store = MariadbStore(mariadb_url, schema=mariadb_schema)
    with user(autocommit=True, client_flag=65_536).cursor() as cursor:
        cursor.execute(store.script())
        while cursor.nextset():
            pass

    store.check()
    taken(store, "a")
    [[name, held, waiting]] = rows(
        user(), f"SELECT name, held, waiting FROM {store.catalogue.prefix}locks"
    )
    assert (name, held, waiting) == ("reindex", 1, 0)
    store.close()


def test_missing_tables_are_said_to_be_missing(mariadb_url: str, user: Connect) -> None:
    store = MariadbStore(mariadb_url, schema="t_nothing_here")

    with pytest.raises(SchemaMismatch, match="onejob init"):
        store.check()
    with pytest.raises(SchemaMismatch, match="onejob init"):
        store.run(ask("a"))
    store.close()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mariadb://root:secret@127.0.0.1:PORT/test", "Can't connect"),
        ("mariadb://nobody:secret@127.0.0.1/test", "Access denied"),
        ("mariadb://root@127.0.0.1/no_such_database", "Create the database first"),
    ],
)
def test_a_server_that_cannot_be_used_is_unavailable_and_no_password_is_shown(
    mariadb_url: str, url: str, why: str
) -> None:
    host = mariadb_url.rpartition("@")[2].partition("/")[0]
    url = url.replace("127.0.0.1/", f"{host}/").replace("PORT", str(free_port()))
    store = MariadbStore(url, where="127.0.0.1/test")

    with pytest.raises(StoreUnavailable, match=why) as raised:
        store.run(claims.take("period", "x", "1", owner="a", lease=SECOND, keep=HOUR))

    assert "secret" not in str(raised.value)


def test_a_command_that_mariadb_does_not_carry_is_named_with_the_way_out(
    mariadb_store: MariadbStore,
) -> None:
    with pytest.raises(UnsupportedByStore, match="postgresql://"):
        mariadb_store.run(runs.by_key(runs.Kind.RUN, "mail", "1"))


@pytest.mark.parametrize(
    ("code", "unsure_of", "meaning"),
    [
        (2013, "lease_break", "outcome_unknown"),
        (2013, "", "store_unavailable"),
        (1927, "lease_break", "outcome_unknown"),
        (2006, "lease_break", "store_unavailable"),
        (2003, "lease_break", "store_unavailable"),
        (1205, "lease_break", "store_unavailable"),
        (1290, "lease_break", "store_unavailable"),
        (1146, "", "schema_mismatch"),
        (1064, "lease_break", None),
    ],
)
def test_an_error_says_whether_anything_may_have_been_done(
    code: int, unsure_of: str, meaning: str | None
) -> None:
    """A reply that is missing is no answer; a request that was never sent is one."""
    error = pymysql.OperationalError(code, "why")

    meant = mariadb_errors.meaning(error, "here", unsure_of=unsure_of, wanted=1)

    assert getattr(meant, "code", None) == meaning


def test_only_what_is_safe_to_repeat_is_asked_again() -> None:
    acquire = ask("a")
    break_ = leases.break_("shop", "x", token=Token(1), by="a", reason="x")
    lost, deadlock = pymysql.OperationalError(2013, ""), pymysql.OperationalError(1213, "")
    silent = pymysql.OperationalError(2013, "")
    silent.__context__ = TimeoutError()

    assert mariadb_errors.again(acquire, lost, 1)
    assert not mariadb_errors.again(acquire, lost, 2)
    assert not mariadb_errors.again(acquire, silent, 1)
    assert not mariadb_errors.again(break_, lost, 1)
    assert mariadb_errors.again(break_, deadlock, 5)


def test_no_lock_of_a_session_is_taken_anywhere() -> None:
    """C28: GET_LOCK is the session's and the whole server's, answers NULL, 0 or 1, and ends with
    the connection that nobody watches; a row is the lock here, so none of it can go wrong."""
    folder = Path(__file__).parents[2] / "src" / "onejob" / "stores"
    sources = [*folder.glob("mariadb*.py"), *(folder / "sql" / "mariadb").rglob("*.sql")]

    assert len(sources) > 5
    assert [file.name for file in sources if "get_lock" in file.read_text("utf-8").lower()] == []


def test_what_a_test_leaves_behind_is_dropped(mariadb_url: str) -> None:
    store = MariadbStore(mariadb_url, schema="t_left_behind")
    store.init()
    store.close()

    drop_tables(mariadb_url, "t_left_behind")

    assert store.version() is None
    store.close()
