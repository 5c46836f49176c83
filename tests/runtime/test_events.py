"""Events: log and listeners hear of each, and a listener's mistake is its own."""

from __future__ import annotations

import logging

import pytest

from onejob.runtime.events import Event, Events


def test_a_listener_that_raises_stops_neither_the_loop_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, heard = Events(), list[Event]()

    def broken(event: Event) -> None:
        raise ValueError("mine")

    events.listen(broken)
    events.listen(heard.append)
    events.emit("run.ended", run=7, token=9)

    assert heard == [Event("run.ended", {"run": 7, "token": 9})]
    assert "a listener failed on run.ended" in caplog.text


@pytest.mark.parametrize(
    ("name", "level"),
    [("run.ended", logging.DEBUG), ("run.failed", logging.WARNING), ("loop.error", logging.ERROR)],
)
def test_an_event_is_logged_as_loudly_as_a_person_should_look(
    caplog: pytest.LogCaptureFixture, name: str, level: int
) -> None:
    with caplog.at_level(logging.DEBUG, logger="onejob"):
        Events().emit(name, run=7)

    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (level, f"{name} run=7")
