"""Which index is a key on these columns, what goes around it, and how it is built."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onejob import UsageError
from onejob.core.unique_key import (
    Column,
    Index,
    Table,
    cautions,
    key_name,
    named,
    quote,
    standing,
    statements,
)

CUSTOMER, PERIOD = Column("customer", "integer"), Column("period", "date")
BY = (CUSTOMER, PERIOD)
TABLE = Table("postgresql", "sales", "invoices", BY, version=15)
KEY = Index("invoices_key", ("period", "customer"))


def test_a_unique_index_on_these_columns_is_the_key_in_whatever_order() -> None:
    assert standing(replace(TABLE, indexes=(KEY,)), BY) == KEY


@pytest.mark.parametrize(
    "index",
    [
        replace(KEY, unique=False),
        replace(KEY, valid=False),
        replace(KEY, condition="deleted IS NULL"),
        replace(KEY, columns=("", "customer"), expression="lower(period)"),
        replace(KEY, prefix=True),
        replace(KEY, columns=("customer",)),
        replace(KEY, columns=("customer", "period", "number")),
    ],
)
def test_what_only_looks_like_the_key_is_none(index: Index) -> None:
    """E21: an index that is not there, not valid, or not on these columns alone."""
    assert standing(replace(TABLE, indexes=(index,)), BY) is None


def test_a_key_whose_nulls_differ_keeps_nothing_out() -> None:
    """E20"""
    by = (CUSTOMER, replace(PERIOD, nullable=True))

    assert standing(replace(TABLE, indexes=(KEY,)), by) is None
    assert standing(replace(TABLE, indexes=(replace(KEY, nulls_equal=True),)), by) is not None


def test_nulls_are_taken_for_equal_where_the_server_can() -> None:
    by = (CUSTOMER, replace(PERIOD, nullable=True))

    new, old = statements(TABLE, by, "k"), statements(replace(TABLE, version=14), by, "k")

    assert "NULLS NOT DISTINCT" in new[0]
    assert "NULLS" not in old[0]
    assert "NOT NULL" in cautions(replace(TABLE, version=14), by, "k")[0]
    assert "NULLS NOT DISTINCT" in cautions(TABLE, by, "k")[0]


def test_an_index_that_a_failed_build_left_is_dropped_first() -> None:
    table = replace(TABLE, indexes=(Index("k", ("customer", "period"), valid=False),))

    assert statements(table, BY, "k") == [
        'DROP INDEX CONCURRENTLY "sales"."k";',
        'CREATE UNIQUE INDEX CONCURRENTLY "k" ON "sales"."invoices" ("customer", "period");',
        'ALTER TABLE "sales"."invoices" ADD CONSTRAINT "k" UNIQUE USING INDEX "k";',
    ]
    assert "k is invalid" in cautions(table, BY, "k")[0]


def test_partial_and_expression_indexes_are_named_with_what_they_leave_out() -> None:
    table = replace(
        TABLE,
        indexes=(
            replace(KEY, name="part", condition="deleted IS NULL"),
            Index("low", ("",), expression="lower(customer)"),
            Index("other", ("number",)),
        ),
    )

    told = cautions(table, BY, "k")

    assert len(told) == 2
    assert "part is partial (WHERE deleted IS NULL)" in told[0]
    assert "low is on an expression (lower(customer))" in told[1]


def test_case_is_said_as_the_collation_has_it() -> None:
    exact = Column("mail", "text", is_text=True)
    folded = Column(
        "mail", "varchar", collation="utf8mb4_general_ci", is_text=True, folds_case=True
    )

    assert "two keys" in cautions(TABLE, (exact,), "k")[0]
    assert "one key" in cautions(TABLE, (folded,), "k")[0]


@pytest.mark.parametrize(
    ("octets", "row_format", "too_long"),
    [
        (3_072, "Dynamic", False),
        (3_073, "Dynamic", True),
        (768, "Compact", True),
        (767, "Compact", False),
        (None, "Dynamic", True),
    ],
)
def test_a_key_that_no_index_of_mariadb_takes_is_said(
    octets: int | None, row_format: str, too_long: bool
) -> None:
    table = replace(TABLE, database="mariadb", row_format=row_format)
    by = (Column("a", "varchar", octets=octets),)

    assert any("too long" in told for told in cautions(table, by, "k")) is too_long


def test_identifiers_are_quoted_once_as_their_database_does() -> None:
    """G05"""
    assert quote('a"; DROP TABLE x; --', "postgresql") == '"a""; DROP TABLE x; --"'
    assert quote("a`b", "mariadb") == "`a``b`"
    with pytest.raises(UsageError):
        quote("a\0b", "sqlite")


def test_a_name_is_made_that_the_database_keeps_whole() -> None:
    long = Column("é" * 60)

    assert key_name(TABLE, BY) == "invoices_customer_period_key"
    assert len(key_name(TABLE, (long,)).encode()) <= 63
    assert key_name(TABLE, (long,)).endswith("_key")


def test_a_column_that_is_not_there_is_refused_with_what_is() -> None:
    assert named(TABLE, ["PERIOD", "customer"]) == (PERIOD, CUSTOMER)
    with pytest.raises(UsageError, match="Did you mean customer"):
        named(TABLE, ["custmer"])
    with pytest.raises(UsageError, match="It has: customer, period"):
        named(TABLE, ["x"])
    with pytest.raises(UsageError, match="twice"):
        named(TABLE, ["period", "Period"])


def test_the_other_databases_have_one_statement_each() -> None:
    mariadb, sqlite = (
        replace(TABLE, database="mariadb"),
        replace(TABLE, database="sqlite", schema=""),
    )

    assert statements(mariadb, BY, "k") == [
        "ALTER TABLE `sales`.`invoices` ADD UNIQUE KEY `k` (`customer`, `period`), "
        "ALGORITHM=INPLACE, LOCK=NONE;"
    ]
    assert statements(sqlite, BY, "k") == [
        'CREATE UNIQUE INDEX "k" ON "invoices" ("customer", "period");'
    ]
    partitioned = statements(replace(TABLE, partitioned=True), BY, "k")
    assert partitioned == [
        'ALTER TABLE "sales"."invoices" ADD CONSTRAINT "k" UNIQUE ("customer", "period");'
    ]
