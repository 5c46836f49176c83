"""Messages that a broker hands over again, remembered in the ledger. The inbox builds on this."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cases.conftest import Place
from cases.test_group_5 import connected
from onejob import App, InProgress, SchemaMismatch


def handle(app: App, place: Place, messages: list[str], handled: list[str]) -> int:
    """Handle a batch in one transaction, as a consumer does; return how many were known."""
    known = 0
    with connected(place) as connection:
        for message in messages:
            if app.first("inbox orders", message, within=connection):
                handled.append(message)
            else:
                known += 1
        connection.execute("COMMIT")
    return known


def test_a_replayed_batch_has_each_effect_once(place: Place) -> None:
    """B12, E04: a hundred messages of which sixty were applied; a known one is no error."""
    app, handled = place.app(), []
    batch = [f"topic-3-{offset}" for offset in range(100)]

    known = [handle(app, place, messages, handled) for messages in (batch[:60], batch, batch)]

    assert known == [0, 60, 100]
    assert handled == batch


def test_a_message_delivered_while_it_is_handled_is_in_progress_then_known(place: Place) -> None:
    """B10, E05: the second delivery comes during the first, the third after it."""
    app, called = place.app(), []
    begun, go_on = threading.Event(), threading.Event()

    def alert() -> str:
        called.append(1)
        begun.set()
        assert go_on.wait(10)
        return "incident 7"

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(app.effect, "inbox alerts", "m-7", alert)
        assert begun.wait(10)
        with pytest.raises(InProgress) as second:
            app.effect("inbox alerts", "m-7", alert)
        go_on.set()
        answers = [first.result(10), app.effect("inbox alerts", "m-7", alert)]

    assert second.value.age_seconds >= 0
    assert answers == ["incident 7", "incident 7"]
    assert called == [1]


def test_a_guard_whose_store_is_not_installed_lets_nothing_through(tmp_path: object) -> None:
    """A12: it fails, and loudly; it never degrades to "no guard"."""
    app, called = App(f"sqlite:///{tmp_path}/empty.db"), []

    with pytest.raises(SchemaMismatch, match="onejob init"):
        app.effect("digest", "7", lambda: called.append(1))
    with pytest.raises(SchemaMismatch, match="onejob init"):
        app.start()

    app.close()
    assert called == []
