"""A holder that stands still past its lease, at any instant: nothing stale lands by any recipe.

Two processes take one lock in turn and write under each recipe of docs/how-to/fencing.md. One is
frozen in the middle of what it does, the other takes over and writes, and the first goes on in good
faith. A table that nobody's word enters decides. The same write without a guard is the control.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults.pauses.effects import Data, Landed, stale
from faults.pauses.exercise import Place, Result, exercise

STORES = ("sqlite", "postgresql", "mariadb", "redis")
#: Any other one does as well; a failure tells which.
SEED = int(os.environ.get("ONEJOB_PAUSES_SEED", "20261130"))


@pytest.fixture
def places(
    sqlite_url: str,
    postgres_url: str,
    schema: str,
    mariadb_url: str,
    mariadb_schema: str,
    redis_url: str,
    redis_schema: str,
) -> dict[str, Place]:
    """Each store, with data beside it where it can be, and elsewhere for Redis."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    lying = [
        ("sqlite", sqlite_url, schema, Data(sqlite_url, "pause_")),
        ("postgresql", postgres_url, schema, Data(postgres_url, f'"{schema}".pause_')),
        ("mariadb", mariadb_url, mariadb_schema, Data(mariadb_url, f"{mariadb_schema}_pause_")),
        ("redis", redis_url, redis_schema, Data(postgres_url, f'"{schema}".redis_')),
    ]
    return {
        store: Place(store, url, where, data, redis_url, f"{{{redis_schema}}}:{store}")
        for store, url, where, data in lying
    }


def judged(result: Result) -> str:
    """Return what is wrong with a result, "" for nothing."""
    wrong = [f"stale: {line}" for line in result.stale(guarded=True)]
    wrong += result.misreported()
    if not result.stale(guarded=False):
        wrong.append("not even the bare write landed late: this has shown nothing")
    if not result.taken_over:
        wrong.append("nobody took over: this has shown nothing")
    return "\n".join([*wrong, result.told(), f"seed {SEED}"]) if wrong else ""


@pytest.mark.slow
def test_nothing_stale_lands_wherever_a_holder_stands_still(
    places: dict[str, Place], tmp_path: Path
) -> None:
    """A13, C01, C02, C09, C10: six instants on each store."""
    with ThreadPoolExecutor(len(STORES)) as pool:
        running = [
            pool.submit(exercise, places[store], instants=6, seed=SEED, directory=tmp_path)
            for store in STORES
        ]
        results = [one.result() for one in running]

    print(*(result.told() for result in results), sep="\n")
    assert [judged(result) for result in results] == [""] * len(STORES)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("store", STORES)
def test_nothing_stale_lands_at_two_hundred_instants(
    places: dict[str, Place], store: str, tmp_path: Path
) -> None:
    """A13, C01, C02, C09, C10"""
    result = exercise(places[store], instants=200, seed=SEED, directory=tmp_path)

    print(result.told())
    assert judged(result) == ""


def test_a_write_below_a_mark_or_another_write_is_stale() -> None:
    def line(kind: str, token: int, recipe: str = "bare") -> Landed:
        return Landed(recipe, kind, token, "a")

    assert stale([line("mark", 1), line("write", 1), line("mark", 2), line("write", 2)]) == []
    assert stale([line("mark", 2), line("write", 1)]) == [line("write", 1)]
    assert stale([line("write", 2), line("write", 1), line("write", 2)]) == [line("write", 1)]
    assert stale([line("write", 2), line("write", 1, "http")]) == []
