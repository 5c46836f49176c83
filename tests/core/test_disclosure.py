"""What may be told: allowed arguments, and errors without their secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.disclosure import VALUE_CHARACTERS, allowed, redacted
from onejob.core.run import ERROR_CHARACTERS, error_text

SECRET = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"could not connect to postgresql://shop:{SECRET}@db.internal:5432/shop",
        f"amqps://user:{SECRET}@mq refused",
        f"password={SECRET}",
        f'{{"api_key": "{SECRET}", "to": "ada"}}',
        f"Authorization: Bearer {SECRET}",
        f"headers were {{'Authorization': 'Basic {SECRET}'}}",
        f"GET /v1?token={SECRET}&page=2 gave 403",
        f"client_secret='{SECRET}'",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
    ],
)
def test_what_looks_like_a_credential_is_not_told(text: str) -> None:
    """G03: somebody else's error may quote what it failed with."""
    shown = redacted(text)

    assert SECRET not in shown
    assert "***" in shown
    assert SECRET not in error_text(ConnectionError(text))


@pytest.mark.parametrize(
    "text",
    [
        "invalid literal for int() with base 10: 'seven'",
        "stale token 4 for lease 'nightly'; the current holder has 5. Stop this attempt.",
        "the password is too short",
        "https://shop.example/orders/7?page=2 gave 404",
        "KeyError: 'author'",
        "",
    ],
)
def test_an_ordinary_error_is_told_as_it_is(text: str) -> None:
    assert redacted(text) == text


@given(st.text(max_size=200))
def test_what_was_redacted_stays_as_it_is(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)


def test_a_secret_at_the_bound_is_not_told_by_half() -> None:
    text = "x" * (ERROR_CHARACTERS - 30) + f" password={SECRET * 20}"

    assert SECRET not in error_text(ValueError(text))


def test_only_the_fields_that_are_allowed_are_shown() -> None:
    """G03: by an allow-list, so that a new parameter is secret until somebody says otherwise."""
    args = '{"image_id":7,"token":"hunter2","note":"a\\u001bb"}'

    assert allowed(args, ()) == ""
    assert allowed(args, ("image_id",)) == "image_id=7"
    assert allowed(args, ("image_id", "absent", "note")) == 'image_id=7 note="a\\u001bb"'


def test_a_long_value_is_cut_and_one_that_is_no_json_is_not_shown() -> None:
    assert len(allowed(f'{{"text":"{"x" * 10_000}"}}', ("text",))) < VALUE_CHARACTERS + 10
    assert allowed("nonsense", ("text",)) == ""
