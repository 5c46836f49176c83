"""The store carried a command out and its reply is missing: what an effect makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.conftest import Begin
from onejob import App, EffectUnknown, OutcomeUnknown, Run
from onejob.commands.command import Command
from onejob.effect import NO_SPAN, Options
from onejob.procedure import RECORD_TRIES, perform
from onejob.steps import carry


@pytest.fixture
def run(app: App, begin: Begin) -> Run:
    @app.job()
    def bill() -> None: ...

    bill.using(key="2026-03").enqueue()
    started: Run = begin()
    return started


def deaf(app: App, name: str, times: int) -> Callable[[Command[Any]], Any]:
    """Carry commands out, and lose the replies to the first ``times`` of this name."""
    left = [times]

    def carried_out(command: Command[Any]) -> Any:
        answer = app.store.run(command)
        if command.name == name and left[0]:
            left[0] -= 1
            raise OutcomeUnknown(name, app.store.where, "the connection broke")
        return answer

    return carried_out


def effect(
    app: App, run: Run, call: Callable[..., Any], send: Callable[[Command[Any]], Any]
) -> Any:
    options = Options(
        if_unknown="raise",
        pass_key_as=None,
        fingerprint=None,
        provider_keeps=None,
        final=(),
        claim_for=NO_SPAN,
    )
    asked = run._request("charge", call, (), {}, options)
    return carry(perform(asked, app.events), send)


def test_a_claim_that_was_made_is_found_and_used(app: App, run: Run) -> None:
    calls: list[int] = []

    result = effect(app, run, lambda: calls.append(1), deaf(app, "effect_claim_in_run", 1))

    assert result is None
    assert calls == [1]
    assert settled(app) == "done"


def test_a_record_is_asked_again(app: App, run: Run) -> None:
    send = deaf(app, "effect_record", RECORD_TRIES - 1)

    assert effect(app, run, lambda: "r-1", send) == "r-1"
    assert settled(app) == "done"


def test_a_record_that_never_gets_through_is_an_error_and_calls_nobody_again(
    app: App, run: Run
) -> None:
    def unreachable(command: Command[Any]) -> Any:
        if command.name == "effect_record":
            raise OutcomeUnknown(command.name, app.store.where, "the connection broke")
        return app.store.run(command)

    with pytest.raises(OutcomeUnknown):
        effect(app, run, lambda: "r-1", unreachable)

    assert settled(app) == "claimed"


def test_an_unknown_that_cannot_be_written_down_is_unknown_all_the_same(app: App, run: Run) -> None:
    def fail() -> None:
        raise TimeoutError("read timed out")

    with pytest.raises(EffectUnknown, match="read timed out"):
        effect(app, run, fail, deaf(app, "effect_record", RECORD_TRIES))


def settled(app: App) -> str:
    found = app.effects.get("bill/2026-03", "charge")
    return "absent" if found is None else found.state
