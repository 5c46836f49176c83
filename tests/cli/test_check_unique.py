"""check-unique: what stands twice in a table, and the key that keeps it out, on real databases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from cli.conftest import Shop
from onejob.cli.root import root
from servers.mariadb import connect as connect_mariadb

ROWS = "(1, 'a', 'ada@example.com'), (1, 'a', NULL), (2, 'a', NULL), (3, 'a', NULL)"


class Place:
    """A database with a table of somebody's, and statements run there as its owner would."""

    def __init__(self, kind: str, url: str, prefix: str) -> None:
        self.kind, self.url = kind, url
        self.table = f"{prefix}.invoices" if kind == "postgresql" else f"{prefix}_invoices"

    def execute(self, *texts: str) -> None:
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
                for text in texts:
                    connection.execute(text)
                connection.commit()
        elif self.kind == "postgresql":
            with psycopg.connect(self.url, autocommit=True) as connection:
                for text in texts:
                    connection.execute(text.encode())
        else:
            with connect_mariadb(self.url, autocommit=True) as connection:
                for text in texts:
                    connection.cursor().execute(text)

    def check(self, *arguments: str) -> Result:
        return CliRunner().invoke(root, ["check-unique", *arguments, "--url", self.url])

    def json(self, *arguments: str) -> Any:
        result = self.check(*arguments, "--json")
        assert result.exit_code in (0, 1), result.stderr
        return json.loads(result.stdout)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def place(request: pytest.FixtureRequest) -> Place:
    kind = request.param
    if kind == "sqlite":
        place = Place(kind, request.getfixturevalue("sqlite_url"), "shop")
    elif kind == "postgresql":
        place = Place(
            kind, request.getfixturevalue("postgres_url"), request.getfixturevalue("schema")
        )
        place.execute(f"CREATE SCHEMA {place.table.partition('.')[0]}")
    else:
        place = Place(
            kind, request.getfixturevalue("mariadb_url"), request.getfixturevalue("mariadb_schema")
        )
    place.execute(
        f"CREATE TABLE {place.table} (customer integer NOT NULL, period varchar(9) NOT NULL, "
        "mail varchar(50))",
        f"INSERT INTO {place.table} VALUES {ROWS}",
    )
    return place


def test_duplicates_are_counted_and_their_values_shown_only_on_request(place: Place) -> None:
    told = place.json(place.table, "--by", "customer,period")
    shown = place.json(place.table, "--by", "customer,period", "--values")

    assert (told["count"], told["surplus_rows"], told["with_null"]) == (1, 1, 0)
    assert told["duplicates"] == [{"rows": 2, "has_null": False}]
    assert shown["duplicates"][0]["key"] == {"customer": 1, "period": "a"}
    assert place.check(place.table, "--by", "customer,period").exit_code == 1


def test_the_statements_that_are_printed_build_a_key_that_is_recognised(place: Place) -> None:
    """E21: run as they are, once the duplicates are settled."""
    place.execute(f"DELETE FROM {place.table} WHERE customer = 1")

    before = place.json(place.table, "--by", "customer,period")
    place.execute(*(statement.rstrip(";") for statement in before["ddl"]))
    after = place.json(place.table, "--by", "period,customer")

    assert (before["count"], before["key"]) == (0, None)
    assert (after["ddl"], after["key"]) == ([], key_of(place))
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        place.execute(f"INSERT INTO {place.table} VALUES (2, 'a', NULL)")
    assert place.check(place.table, "--by", "customer,period").exit_code == 0


def key_of(place: Place) -> str:
    return f"{place.table.rpartition('.')[2]}_customer_period_key"


def test_columns_that_may_be_null_are_warned_of(place: Place) -> None:
    """E20: on PostgreSQL 15 the key that is printed takes them for equal."""
    told = place.json(place.table, "--by", "mail")

    assert told["with_null"] == 1
    assert "mail may be NULL" in told["warnings"][0]
    if place.kind == "postgresql":
        place.execute(f"DELETE FROM {place.table} WHERE mail IS NULL AND customer > 1")
        place.execute(*place.json(place.table, "--by", "mail")["ddl"])
        assert place.json(place.table, "--by", "mail")["key"] == "invoices_mail_key"
        with pytest.raises(psycopg.errors.UniqueViolation):
            place.execute(f"INSERT INTO {place.table} VALUES (9, 'z', NULL)")


def test_a_wrong_column_or_table_is_a_usage_error(place: Place) -> None:
    column = place.check(place.table, "--by", "custmer")
    table = place.check("no_such_table; DROP TABLE x", "--by", "customer")
    empty = place.check(place.table, "--by", "customer,")

    assert (column.exit_code, table.exit_code, empty.exit_code) == (2, 2, 2)
    assert "Did you mean customer" in column.stderr
    assert "there is no table" in table.stderr


def test_it_writes_nothing_and_needs_no_tables_of_ours(place: Place) -> None:
    """Reading only, also where the account could do more."""
    place.check(place.table, "--by", "customer,period")

    assert place.json(place.table, "--by", "customer,period")["count"] == 1
    assert place.check(place.table, "--by", "customer", "--timeout", "1ms").exit_code == 2


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_an_invalid_index_is_named_and_dropped_first(place: Place) -> None:
    key = key_of(place)
    with pytest.raises(psycopg.errors.UniqueViolation):
        place.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {key} ON {place.table} (customer, period)")

    told = place.json(place.table, "--by", "customer,period")

    assert f"{key} is invalid" in told["warnings"][0]
    assert told["ddl"][0].startswith("DROP INDEX CONCURRENTLY")
    place.execute(f"DELETE FROM {place.table} WHERE customer = 1", *told["ddl"])
    assert place.json(place.table, "--by", "customer,period")["key"] == key


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_partial_and_expression_indexes_are_no_keys(place: Place) -> None:
    place.execute(
        f"CREATE UNIQUE INDEX part ON {place.table} (customer, period) WHERE customer > 1",
        f"CREATE UNIQUE INDEX low ON {place.table} (lower(mail))",
    )

    by_columns = place.json(place.table, "--by", "customer,period")
    by_mail = place.json(place.table, "--by", "mail")

    assert any("part is partial (WHERE (customer > 1))" in told for told in by_columns["warnings"])
    assert any("low is on an expression" in told for told in by_mail["warnings"])
    assert by_columns["key"] is None


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_count_that_does_not_end_is_unknown(place: Place) -> None:
    """Somebody holds the table: bounded, and no guess."""
    with psycopg.connect(place.url) as holding:
        holding.execute(f"LOCK TABLE {place.table} IN ACCESS EXCLUSIVE MODE".encode())
        result = place.check(place.table, "--by", "customer", "--timeout", "1s")
        holding.rollback()

    assert result.exit_code == 4
    assert "nobody knows" in result.stderr


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_names_are_quoted_and_a_view_is_refused(place: Place) -> None:
    schema = place.table.partition(".")[0]
    place.execute(
        f'CREATE TABLE {schema}."Odd ""one""" ("select" int, n int, onejob text)',
        f'INSERT INTO {schema}."Odd ""one""" VALUES (1, 1, 1), (1, 1, 1)',
        f"CREATE VIEW {schema}.seen AS SELECT 1 AS a",
    )

    told = place.json(f'{schema}."Odd ""one"""', "--by", "select,n")
    view = place.check(f"{schema}.seen", "--by", "a")

    assert told["count"] == 1
    assert '"Odd ""one"""' in told["ddl"][0]
    assert (view.exit_code, "is no table" in view.stderr) == (2, True)


@pytest.mark.parametrize("place", ["mariadb"], indirect=True)
def test_case_and_length_are_said_as_mariadb_has_them(place: Place) -> None:
    place.execute(
        f"ALTER TABLE {place.table} ADD long_one varchar(900) CHARACTER SET utf8mb4 NOT NULL",
        f"INSERT INTO {place.table} VALUES (7, 'A', NULL, 'x')",
    )

    told = place.json(place.table, "--by", "period,long_one")

    assert any("without regard to case" in note for note in told["warnings"])
    assert any("too long for an index" in note for note in told["warnings"])
    with pytest.raises(Exception, match=r"(?i)lock=none|algorithm|too long|not supported"):
        place.execute(f"DELETE FROM {place.table}", *told["ddl"])


def test_a_store_without_tables_is_refused(redis_url: str) -> None:
    result = CliRunner().invoke(root, ["check-unique", "t", "--by", "a", "--url", redis_url])

    assert result.exit_code == 2
    assert "redis has no tables" in result.stderr


def test_a_file_that_is_not_there_is_not_made(sqlite_url: str) -> None:
    result = CliRunner().invoke(root, ["check-unique", "t", "--by", "a", "--url", sqlite_url])

    assert result.exit_code == 3
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(f"file:{sqlite_url.removeprefix('sqlite:///')}?mode=ro", uri=True)


def test_tables_of_ours_can_be_looked_at_too(sqlite_shop: Shop) -> None:
    told = sqlite_shop.json("check-unique", "onejob_ledger", "--by", "kind,scope,key")

    assert told["key"] == "sqlite_autoindex_onejob_ledger_1"
