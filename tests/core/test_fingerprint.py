"""Fingerprints: equal content is equal, other content is not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from itertools import combinations
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.fingerprint import fingerprint
from onejob.errors import UsageError


class Color(StrEnum):
    RED = "red"


NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1, [2]], (1, (2,))),
        ({3, 1, 2}, frozenset({1, 2, 3})),
        (Decimal("10.50"), Decimal("10.5")),
        (Decimal("1E+2"), Decimal(100)),
        (Decimal("0.00"), Decimal("-0")),
        (Color.RED, "red"),
        (NOON, NOON.astimezone(timezone(timedelta(hours=2)))),
    ],
)
def test_one_content_has_one_fingerprint(one: object, other: object) -> None:
    """E17."""
    assert fingerprint(one) == fingerprint(other)


def test_kinds_of_value_are_kept_apart() -> None:
    """E17: 1, 1.0 and "1" are three contents."""
    values: list[object] = [
        *(
            1,
            1.0,
            "1",
            True,
            Decimal(1),
            [1],
            {"1": 1},
            {1: 1},
            {1},
            None,
            "",
            b"1",
            "decimal(1e0)",
        ),
        *(NOON, NOON.date(), date(2026, 1, 1), UUID(int=1), str(UUID(int=1)), timedelta(1)),
        *([1, 2], [2, 1], [[1], 2], [1, [2]], -1, 10, Decimal(10), Decimal("-1")),
    ]

    assert all(fingerprint(a) != fingerprint(b) for a, b in combinations(values, 2))


def test_a_fingerprint_is_the_same_for_ever() -> None:
    assert (
        fingerprint({"a": 1, "b": [1.5, None, "ü"]})
        == "83e0cdbb3c7619b94509ad6d7cb01c838fb9e262b76d5b7a134ceb869649dc74"
    )


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_insertion_is_not_content(value: dict[str, int]) -> None:
    """E17."""
    assert fingerprint(value) == fingerprint(dict(reversed(value.items())))


@pytest.mark.parametrize(
    "value",
    [float("nan"), Decimal("NaN"), datetime(2026, 1, 1), object(), lambda: 1, "\ud800"],  # noqa: DTZ001
)
def test_what_has_no_content_to_compare_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="no fingerprint"):
        fingerprint(value)
