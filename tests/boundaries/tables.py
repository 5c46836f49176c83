"""What was injected and what came of it, as a table for people and as JSON lines for others.

A row counts faults of one kind: how many were injected, and how many runs or fire times were lost
or doubled by them. ``unknown`` is not a failure: an effect that may have happened, and says so.
Rows travel from pytest-xdist's workers in the properties of their test's report.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import pytest

PROPERTY = "boundaries"
#: Names a file that gets each row as one line of JSON.
FILE = "ONEJOB_TABLES"


@dataclass(frozen=True, slots=True)
class Row:
    """The faults of one kind against one store, and what they did."""

    table: str
    store: str
    fault: str
    injected: int
    runs: int
    unknown: int = 0
    lost: int = 0
    doubled: int = 0
    note: str = ""


def keep(node: pytest.Item, row: Row) -> None:
    """Hand a row to the report of the test that counted it, and to the file that is asked for."""
    node.user_properties.append((PROPERTY, asdict(row)))
    if path := os.environ.get(FILE):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def rows(reports: Iterable[object]) -> list[Row]:
    """Return the rows in these reports, each once."""
    found = [
        Row(**value)
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in getattr(report, "user_properties", [])
        if name == PROPERTY and isinstance(value, Mapping)
    ]
    return sorted(found, key=lambda row: (row.table, row.store))


def lines(table: list[Row]) -> list[str]:
    """Lay rows out in columns, a heading for each table, its sums last."""
    out: list[str] = []
    for name in dict.fromkeys(row.table for row in table):
        mine = [row for row in table if row.table == name]
        out.append(f"{name:<44}{'injected':>9}{'runs':>7}{'unknown':>9}{'lost':>6}{'doubled':>9}")
        for row in [*mine, _sum(mine)]:
            label = f"  {row.store:<11} {row.fault}"
            out.append(
                f"{label:<44}{row.injected:>9}{row.runs:>7}{row.unknown:>9}{row.lost:>6}"
                f"{row.doubled:>9}  {row.note}".rstrip()
            )
    return out


def _sum(mine: list[Row]) -> Row:
    return Row(
        table="",
        store="all",
        fault="",
        injected=sum(row.injected for row in mine),
        runs=sum(row.runs for row in mine),
        unknown=sum(row.unknown for row in mine),
        lost=sum(row.lost for row in mine),
        doubled=sum(row.doubled for row in mine),
    )
