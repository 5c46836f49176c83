"""Names, keys and schema names: refused, or kept exactly as given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.names import NAME_BYTES_MAX, check_name, check_schema
from onejob.errors import UsageError


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "blank"),
        (" ", "blank"),
        ("\t\n", "blank"),
        ("\u200b", "blank"),
        ("\u200b\ufeff\u2060", "blank"),
        ("\u3164", "blank"),
        (" a", "space around"),
        ("a\n", "space around"),
        ("a\u00a0", "space around"),
        ("a\0b", "NUL"),
        ("a\ud800", "lone surrogate"),
        ("a" * (NAME_BYTES_MAX + 1), "1,025 bytes"),
        (None, "not NoneType"),
        (7, "not int"),
        (b"key", "not bytes"),
    ],
)
def test_a_name_that_protects_nothing_is_refused(name: object, says: str) -> None:
    """E14."""
    with pytest.raises(UsageError, match=says) as refusal:
        check_name(name, what="key")

    assert str(refusal.value).startswith("key ")


def test_the_limit_counts_bytes_and_not_characters() -> None:
    """F07."""
    at_limit = "\U0001f4e7" * (NAME_BYTES_MAX // 4)

    assert check_name(at_limit, what="key") == at_limit
    with pytest.raises(UsageError, match="1,028 bytes"):
        check_name(at_limit + "\U0001f4e7", what="key")


@given(st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=200))
def test_a_visible_name_is_kept_exactly(name: str) -> None:
    assert check_name(name, what="key") == name


@pytest.mark.parametrize("name", ["onejob", "_x", "select", "a" * 48])
def test_a_schema_is_kept_exactly(name: str) -> None:
    """G05."""
    assert check_schema(name) == name


@pytest.mark.parametrize(
    "name",
    ['a"; drop table x;--', "Foo", "", "1a", "a" * 49, "a" * 63, "a" * 64, "é", "a.b", "a\n", None],
)
def test_a_schema_that_would_need_care_is_refused(name: object) -> None:
    """G05."""
    with pytest.raises(UsageError, match="a-z, 0-9 and _"):
        check_schema(name)
