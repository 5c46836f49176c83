"""What the fixtures promise to every other test."""

from __future__ import annotations

from pathlib import Path

import psycopg


def test_a_process_has_a_postgres_database_of_its_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        name = connection.info.dbname

    assert name.startswith("onejob_test_")
    assert postgres_url.endswith(name)


def test_a_schema_is_not_there_before_the_test_makes_it(postgres_url: str, schema: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT to_regnamespace(%s)", [schema]).fetchone()

    assert found == (None,)


def test_a_sqlite_url_names_a_file_that_is_not_there_yet(sqlite_url: str) -> None:
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()
