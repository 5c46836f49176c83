"""What a store says of itself."""

from __future__ import annotations

from onejob.commands import health
from onejob.testing.conformance.given import Run


def test_settings_are_texts_by_name_where_a_store_has_any(run: Run) -> None:
    found = run(health.settings())

    assert all(isinstance(name, str) and isinstance(value, str) for name, value in found.items())


def test_a_store_names_at_most_one_open_transaction_of_somebody_else(run: Run) -> None:
    oldest = run(health.oldest_transaction())

    assert oldest is None or (oldest.pid > 0 and oldest.age >= 0)


def test_every_key_that_a_promise_rests_on_is_there(run: Run) -> None:
    """E21"""
    assert set(health.KEYS.items()) <= run(health.keys())
