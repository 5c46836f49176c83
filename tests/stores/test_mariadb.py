"""What is particular to MariaDB: names, charsets, modes, zones, old snapshots, and no sequence."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from onejob.adapters.pymysql import PymysqlWithin
from onejob.commands import claims, fences, leases, views
from onejob.commands.claims import Won
from onejob.core.run import Token
from onejob.core.time import DAY, HOUR, SECOND, Span
from onejob.stores import mariadb_tidying
from onejob.stores.mariadb import MariadbStore
from servers.mariadb import connect
from stores.mariadb_given import TTL, Connect, ask, check, grip, rows, seen, taken, users


@pytest.fixture
def user(mariadb_url: str) -> Iterator[Connect]:
    yield from users(mariadb_url)


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
    known = mariadb_store.catalogue.prefix + "fence"
    with mariadb_store.transaction(longest=TTL) as connection, connection.cursor() as cursor:
        now = "UNIX_TIMESTAMP() * 1000000"
        cursor.execute(f"INSERT INTO {known} VALUES ('shop', 'x', {ahead}, {now})")

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


def test_whoever_asks_is_answered_at_once_while_somebody_writes_at_its_resource(
    mariadb_store: MariadbStore, user: Connect
) -> None:
    """The announcement would wait for that transaction."""
    held = taken(mariadb_store, "a", resources=["x"])
    assert mariadb_store.run(check(held.token), PymysqlWithin(user()))

    began = time.monotonic()
    asked = mariadb_store.run(ask("b", resources=["x"], now=int(held.now) + HOUR))

    assert asked is not None
    assert asked.owner == "a"
    assert time.monotonic() - began < 3.0


@pytest.mark.parametrize("way", ["take", "acquire"])
def test_whoever_looked_before_a_lock_was_taken_does_not_take_it_as_well(
    mariadb_store: MariadbStore, user: Connect, way: str
) -> None:
    """C09: what was seen free is looked at again under the lock of its row."""
    assert mariadb_store.run(leases.release(grip(taken(mariadb_store, "a"))))
    connection = user()
    connection.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    seen(connection, mariadb_store)
    held = taken(mariadb_store, "b")
    quick = leases.take("shop", "reindex", owner="c", holder="c", ttl=TTL)

    mariadb_store.run(quick if way == "take" else ask("c"), PymysqlWithin(connection))
    connection.commit()

    assert mariadb_store.run(leases.renew([(grip(held), TTL)])) == {"b"}


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


def test_many_who_want_the_same_locks_get_them_one_by_one_without_an_error(
    mariadb_store: MariadbStore,
) -> None:
    """C09: takeovers, fences, renewals, purges and claims at once; every token is a later one."""
    tokens: dict[str, list[int]] = {"a": [], "b": []}
    failed: list[BaseException] = []
    ends = time.monotonic() + 1.5

    def want(number: int) -> None:
        turn = 0
        while time.monotonic() < ends:
            turn += 1
            name, owner = "ab"[(turn + number) % 2], f"{number}-{turn}"
            standing = mariadb_store.run(ask(owner, name, resources=["x", "y"], wait=SECOND))
            if standing is not None and standing.owner == owner:
                tokens[name].append(standing.token)
                assert mariadb_store.run(leases.renew([(grip(standing), TTL)])) == {owner}
                assert mariadb_store.run(leases.release(grip(standing)))
            mariadb_store.run(leases.purge(unused=Span(0), limit=10))

    def run(number: int) -> None:
        try:
            want(number)
        except Exception as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    for drawn in tokens.values():
        assert len(drawn) > 0
        assert drawn == sorted(set(drawn))
