"""What is kept of an error can be kept in every store."""

from __future__ import annotations

import pytest

from onejob.core.run import ERROR_CHARACTERS, error_text, storable


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain", "plain"),
        ("\ud800 bad", "? bad"),
        ("a\0b", "a\ufffdb"),
        ("🙂", "🙂"),
    ],
)
def test_a_text_that_no_store_could_keep_is_made_one(text: str, kept: str) -> None:
    assert storable(text) == kept


def test_a_very_long_text_is_cut() -> None:
    assert len(storable("x" * 2 * ERROR_CHARACTERS)) == ERROR_CHARACTERS


def test_an_exception_without_words_is_told_by_its_name() -> None:
    assert error_text(ValueError()) == "ValueError"


def test_an_exception_whose_own_text_fails_is_told_all_the_same() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(Unspeakable()) == "Unspeakable: (its text cannot be had: RuntimeError)"
