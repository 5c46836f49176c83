"""Derived keys. These vectors are promises: a change here changes everybody's keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.keys import fire_key, provider_key
from onejob.core.time import Instant


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        (("shop", "digest/nightly", "digest:42"), "oj-1a9c85d35a56222dcc87a96e7a4e285e"),
        (("", "", ""), "oj-9d908ecfb6b256def8b49a7c504e6c88"),
        (("läden", "\U0001f4e7", "a b"), "oj-c9e67ba94cc635af53b92489da6ff0d3"),
    ],
)
def test_a_provider_key_is_the_same_for_ever(parts: tuple[str, str, str], key: str) -> None:
    assert provider_key(*parts) == key


@given(st.tuples(st.text(), st.text(), st.text()), st.tuples(st.text(), st.text(), st.text()))
def test_provider_keys_differ_as_their_parts_do(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (provider_key(*one) == provider_key(*other)) == (one == other)


def test_where_one_part_ends_matters() -> None:
    assert provider_key("a", "bc", "d") != provider_key("ab", "c", "d")


@given(st.text(), st.text(), st.text())
def test_a_provider_key_is_printable_ascii_of_at_most_64(app: str, scope: str, key: str) -> None:
    derived = provider_key(app, scope, key)

    assert derived.isascii()
    assert derived.isprintable()
    assert len(derived) <= 64


def test_a_fire_key_names_the_schedule_and_its_fire_time() -> None:
    assert fire_key("nightly", Instant(1_774_746_000_000_000)) == "nightly@2026-03-29T01:00:00Z"
