"""``first`` and ``first_many`` on MariaDB, in transactions of the caller's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from onejob import App
from servers.mariadb import connect


@pytest.fixture
def app(mariadb_url: str, mariadb_schema: str) -> Iterator[App]:
    app = App(mariadb_url, schema=mariadb_schema, name="shop")
    store: Any = app.store
    store.init()
    yield app
    app.close()


@pytest.mark.parametrize("found_rows", [False, True], ids=["", "as Django counts rows"])
def test_first_is_first_once_whatever_a_session_counts_as_a_change(
    app: App, mariadb_url: str, found_rows: bool
) -> None:
    """E22"""
    flag = pymysql.constants.CLIENT.FOUND_ROWS if found_rows else 0
    with connect(mariadb_url, client_flag=flag) as one:
        first = app.first("digest", "k", within=one)
        again = app.first("digest", "k", within=one)
        one.rollback()
        after = app.first("digest", "k", within=one)
        many = app.first_many("digest", ["z", "k", "a", "z"], within=one)
        inbox = app.inbox("digest").first("k", within=one)
        one.commit()
        known = app.first_many("digest", ["z", "k", "b"], within=one)

    assert (first, again, after, many, inbox, known) == (
        True,
        False,
        True,
        ["z", "a"],
        True,
        ["b"],
    )


def test_the_second_waits_within_its_own_limit_and_is_first_after_a_rollback(
    app: App, mariadb_url: str
) -> None:
    """E06, E08: and its transaction stays usable."""
    with connect(mariadb_url) as one, connect(mariadb_url) as other:
        with other.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        assert app.first("digest", "k", within=one)
        assert app.first("digest", "mine", within=other)

        with pytest.raises(pymysql.OperationalError, match="1205"):
            app.first("digest", "k", within=other)
        one.rollback()

        assert app.first("digest", "k", within=other)
        other.commit()
        assert not app.first("digest", "mine", within=one)
