"""What is particular to MariaDB: names, charsets, modes, zones, old snapshots, and no sequence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from onejob.adapters.pymysql import PymysqlWithin
from onejob.commands import claims, fences, leases, runs, views
from onejob.commands.claims import Won
from onejob.core.hold import Grip, Standing
from onejob.core.run import Token
from onejob.core.time import DAY, HOUR, SECOND, Span
from onejob.errors import LeaseLost, SchemaMismatch, StoreUnavailable, UnsupportedByStore
from onejob.stores import mariadb_errors, mariadb_tidying
from onejob.stores.mariadb import MariadbStore
from servers.mariadb import connect, drop_tables, free_port

TTL = Span(10 * SECOND)

Connect = Callable[..., Any]


@pytest.fixture
def user(mariadb_url: str) -> Iterator[Connect]:
    """Open connections as users have them, closed at the end."""
    opened: list[Any] = []

    def open(**options: object) -> Any:
        opened.append(connect(mariadb_url, **options))
        return opened[-1]

    yield open
    for connection in opened:
        if connection.open:
            connection.close()


def ask(owner: str, name: str = "reindex", **more: Any) -> Any:
    return leases.acquire("shop", name, owner=owner, holder=owner, **{"ttl": TTL, **more})


def taken(store: MariadbStore, owner: str, name: str = "reindex", **more: Any) -> Standing:
    answer = store.run(ask(owner, name, **more)) or store.run(ask(owner, name, **more))
    assert isinstance(answer, Standing)
    assert answer.owner == owner
    return answer


def grip(standing: Standing) -> Grip:
    return Grip(standing.scope, standing.name, standing.token, standing.owner)


def check(token: int, resource: str = "x") -> Any:
    return fences.check("shop", resource, Token(token), idle_limit=TTL)


def killed(user: Connect, *connections: Any) -> None:
    """End these connections at the server, as an administrator would, and wait until they are."""
    ids = [connection.thread_id() for connection in connections]
    with user(autocommit=True).cursor() as cursor:
        for id in ids:
            cursor.execute("KILL %s", (id,))
        while cursor.execute(
            "SELECT id FROM information_schema.processlist WHERE id IN %s", (ids,)
        ):
            time.sleep(0.01)


def test_tokens_rise_after_everything_was_wiped(
    mariadb_store: MariadbStore, mariadb_url: str
) -> None:
    """C09, C10: no row is left to count from, so the clock is."""
    before = taken(mariadb_store, "a", resources=["x"])
    with connect(mariadb_url, autocommit=True) as connection:
        for table in ("lease", "lease_hand", "fence"):
            connection.query(f"DELETE FROM {mariadb_store.catalogue.prefix}{table}")

    after = taken(mariadb_store, "b")

    assert after.token > before.token
    assert mariadb_store.run(leases.renew([(grip(before), TTL)])) == frozenset()


def test_a_new_token_is_above_the_last_one_and_above_what_its_resources_know(
    mariadb_store: MariadbStore,
) -> None:
    """C09: after a clock was set back the new holder is not refused, and the old one is."""
    ahead = 2**53 + 1
    assert mariadb_store.run(check(ahead))

    first = taken(mariadb_store, "a", resources=["x"])
    assert first.token == ahead + 1
    assert mariadb_store.run(leases.release(grip(first)))

    assert taken(mariadb_store, "b").token == ahead + 2
    assert not mariadb_store.run(check(ahead))
    broken = mariadb_store.run(
        leases.break_("shop", "reindex", token=Token(ahead + 2), by="ada", reason="test")
    )
    assert broken is not None
    assert broken.token == ahead + 3


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "A"), ("é", "e"), ("ß", "ss"), ("😀", "😁"), ("x" * 1_023 + "a", "x" * 1_023 + "b")],
)
def test_names_are_told_apart_byte_by_byte(
    mariadb_store: MariadbStore, one: str, other: str
) -> None:
    """C20, C25: no collation folds them, no length cuts them."""
    first = taken(mariadb_store, "a", one)
    second = taken(mariadb_store, "b", other)

    assert (first.name, second.name) == (one, other)


def test_two_prefixes_in_one_database_know_nothing_of_each_other(
    mariadb_store: MariadbStore, mariadb_url: str, mariadb_schema: str
) -> None:
    """C26"""
    other = MariadbStore(mariadb_url, schema=mariadb_schema)
    other.init()

    taken(mariadb_store, "a")
    taken(other, "b")

    other.close()


MODES = [
    "",
    "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES",
    "TRADITIONAL,ONLY_FULL_GROUP_BY",
    "NO_BACKSLASH_ESCAPES",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
def test_a_fence_holds_in_any_mode_and_charset_of_your_connection(
    mariadb_store: MariadbStore, user: Connect, mode: str, charset: str
) -> None:
    """C20: the name that is compared is the one that was announced, byte by byte."""
    resource = "Rechnung é\\'\"`%s 名"
    held = taken(mariadb_store, "a", resources=[resource])
    connection = user(charset=charset)
    connection.query(f"SET SESSION sql_mode = '{mode}'")
    within = PymysqlWithin(connection)

    assert mariadb_store.run(check(held.token, resource), within)
    assert not mariadb_store.run(check(held.token - 1, resource), within)
    assert mariadb_store.run(fences.known("shop", resource), within) == held.token
    assert mariadb_store.run(leases.fence(grip(held), idle_limit=TTL), within)


@pytest.mark.parametrize("zone", ["+00:00", "-11:00", "+13:00"])
def test_instants_are_of_utc_whatever_time_zone_a_session_has(
    mariadb_store: MariadbStore, user: Connect, zone: str
) -> None:
    connection = user()
    connection.query(f"SET SESSION time_zone = '{zone}'")

    now = mariadb_store.run(views.clock(), PymysqlWithin(connection))

    assert abs(now - time.time_ns() // 1_000) < 5 * SECOND


def test_a_transaction_that_reads_an_old_snapshot_is_refused_an_old_token(
    mariadb_store: MariadbStore, user: Connect
) -> None:
    """C09: what it would read is the token of before; what is compared is the one of now."""
    old = taken(mariadb_store, "a", resources=["x"], ttl=Span(1))
    connection = user()
    connection.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    within = PymysqlWithin(connection)
    seen(connection, mariadb_store)
    new = taken(mariadb_store, "b", resources=["x"])

    assert not mariadb_store.run(leases.fence(grip(old), idle_limit=TTL), within)
    assert not mariadb_store.run(check(old.token), within)
    assert mariadb_store.run(fences.known("shop", "x"), within) == new.token


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE"])
def test_a_holder_can_fence_a_transaction_that_began_before_its_lock_did(
    mariadb_store: MariadbStore, user: Connect, isolation: str
) -> None:
    connection = user()
    connection.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
    mariadb_store.run(ask("nobody"))
    if isolation != "SERIALIZABLE":  # where to read is to lock
        seen(connection, mariadb_store)
    held = taken(mariadb_store, "a")

    fence = leases.fence(grip(held), idle_limit=TTL)
    assert mariadb_store.run(fence, PymysqlWithin(connection))

    assert mariadb_store.run(leases.renew([(grip(held), TTL)])) == {"a"}


def test_a_lease_that_lapsed_or_was_released_cannot_be_fenced(
    mariadb_store: MariadbStore, user: Connect
) -> None:
    """C19: though nobody else has come."""
    lapsed = taken(mariadb_store, "a", ttl=Span(1))
    released = taken(mariadb_store, "b", "other")
    assert mariadb_store.run(leases.release(grip(released)))
    connection = user()
    connection.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    for one in (lapsed, released):
        fence = leases.fence(grip(one), idle_limit=TTL)
        assert not mariadb_store.run(fence, PymysqlWithin(connection))


def test_whoever_asks_is_answered_at_once_while_a_fenced_transaction_is_open(
    mariadb_store: MariadbStore, user: Connect
) -> None:
    """One that waited for the transaction to end would wait without a bound."""
    held = taken(mariadb_store, "a", resources=["x"])
    connection = user()
    assert mariadb_store.run(leases.fence(grip(held), idle_limit=TTL), PymysqlWithin(connection))
    later = int(held.now) + HOUR

    began = time.monotonic()
    asked = mariadb_store.run(ask("b", now=later, resources=["x"]))
    broken = leases.break_("shop", "reindex", token=held.token, by="ada", reason="x")

    assert asked is not None
    assert asked.owner == "a"
    assert mariadb_store.run(broken) is None
    assert mariadb_store.run(leases.purge(unused=Span(0), limit=10, now=later)) == 0
    assert mariadb_store.run(leases.release(grip(held)))
    assert time.monotonic() - began < 3.0


def test_a_fence_bounds_how_long_your_transaction_may_sit_idle_and_never_raises_it(
    mariadb_store: MariadbStore, user: Connect
) -> None:
    """A frozen holder's transaction is ended by the server, so it does not keep the lock."""
    held = taken(mariadb_store, "a")
    limits = []
    for before in (0, 3, 60):
        connection = user()
        connection.query(f"SET SESSION idle_transaction_timeout = {before}")
        fence = leases.fence(grip(held), idle_limit=Span(TTL - 1))
        assert mariadb_store.run(fence, PymysqlWithin(connection))
        [[limit]] = rows(connection, "SELECT @@idle_transaction_timeout")
        limits.append(limit)
        connection.rollback()

    assert limits == [10, 3, 10]


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


def test_a_claim_survives_the_names_and_numbers_that_people_have(
    mariadb_store: MariadbStore,
) -> None:
    """C25: 1,024 bytes of each, four-byte characters, and an error text with everything in it."""
    scope, key, owner = "名" * 341, "😀" * 256, "host:1:" + "é" * 100
    won = mariadb_store.run(
        claims.take(claims.PERIOD, scope, key, owner=owner, lease=SECOND, keep=DAY)
    )
    assert isinstance(won, Won)
    error = "'\\\n\0😀\"" * 100

    assert mariadb_store.run(claims.end(won.claim, keep=DAY, state="failed", error=error))

    [view] = mariadb_store.run(claims.read(claims.PERIOD, scope, [key]))
    assert (view.scope, view.key, view.owner, view.error) == (scope, key, owner, error)


def test_whoever_takes_something_forgets_what_is_past_its_time(
    mariadb_store: MariadbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C05, E25, F15: no replica runs here that would purge."""
    long_ago = time.time_ns() // 1_000 - 500 * DAY
    for number in range(3):
        taken(mariadb_store, "a", f"old-{number}", resources=[f"r-{number}"], now=long_ago)
        taken(mariadb_store, "b", f"old-{number}", now=long_ago + HOUR)
        mariadb_store.run(
            claims.take("period", "x", f"{number}", owner="a", lease=1, keep=1, now=long_ago)
        )
    assert len(mariadb_store.run(views.events(limit=10))) == 3
    monkeypatch.setattr(mariadb_store, "_tidying", mariadb_tidying.Tidying())

    held = taken(mariadb_store, "a", "new")

    left = mariadb_store.run(leases.listed(free=True, limit=10))
    assert [one.standing.name for one in left] == [held.name]
    assert mariadb_store.run(claims.listed("period")) == ()
    assert mariadb_store.run(views.events(limit=10)) == ()
    assert mariadb_store.run(fences.known("shop", "r-0")) is None


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
        (f"mariadb://root:secret@127.0.0.1:{free_port()}/test", "Can't connect"),
        ("mariadb://nobody:secret@127.0.0.1/test", "Access denied"),
        ("mariadb://root@127.0.0.1/no_such_database", "Create the database first"),
    ],
)
def test_a_server_that_cannot_be_used_is_unavailable_and_no_password_is_shown(
    mariadb_url: str, url: str, why: str
) -> None:
    host = mariadb_url.rpartition("@")[2].partition("/")[0]
    store = MariadbStore(url.replace("127.0.0.1/", f"{host}/"), where="127.0.0.1/test")

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


def seen(connection: Any, store: MariadbStore) -> None:
    """Read something, so that what this transaction sees is settled."""
    rows(connection, f"SELECT * FROM {store.catalogue.prefix}lease")
    rows(connection, f"SELECT * FROM {store.catalogue.prefix}fence")


def rows(connection: Any, text: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())
