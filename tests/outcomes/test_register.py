"""Your word on your errors, and what an effect makes of every answer."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from api.conftest import app, begin, install, postgres_app, sqlite_app  # noqa: F401 - fixtures
from onejob import EffectFailed, EffectUnknown, UsageError, outcomes
from onejob.outcomes import FINAL, NOT_SENT, REFUSED, UNKNOWN, meaning, of_cause, register
from outcomes.rogue import Rogue, closed_port


class GatewayError(Exception):
    """What some payment library raises."""


class Busy(GatewayError):
    """A kind of it."""


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "_own", {})


def test_an_error_that_nobody_knows_means_nothing() -> None:
    assert meaning(GatewayError("?")) is None
    assert meaning(ValueError("?")) is None


def test_what_is_said_of_a_class_holds_for_those_derived_from_it() -> None:
    register(GatewayError, UNKNOWN)
    register(Busy, REFUSED)

    class VeryBusy(Busy): ...

    assert meaning(GatewayError()) is UNKNOWN
    assert meaning(VeryBusy()) is REFUSED


def test_a_class_may_be_named_before_it_is_imported() -> None:
    register(f"{__name__}.GatewayError", FINAL)

    assert meaning(Busy()) is FINAL


def test_a_rule_may_look_at_the_error() -> None:
    register(GatewayError, lambda error: {"no": FINAL, "full": REFUSED}.get(error.args[0]))

    assert meaning(GatewayError("no")) is FINAL
    assert meaning(Busy("full")) is REFUSED
    assert meaning(Busy("?")) is None


def test_your_word_comes_before_ours() -> None:
    register(ConnectionRefusedError, UNKNOWN)

    assert meaning(ConnectionRefusedError()) is UNKNOWN


def test_a_wrapper_stands_for_its_cause_only_when_you_say_so() -> None:
    """E13: what wraps an error may have tried several times."""

    def wrapped() -> GatewayError:
        try:
            try:
                httpx.post(f"http://127.0.0.1:{closed_port()}")
            except httpx.HTTPError as error:
                raise GatewayError("cannot pay") from error
        except GatewayError as error:
            return error
        raise AssertionError("nobody listens there")

    before = meaning(wrapped())
    register(GatewayError, of_cause)

    assert before is None
    assert meaning(wrapped()) is NOT_SENT
    assert meaning(GatewayError("without a cause")) is UNKNOWN


@pytest.mark.parametrize(
    ("error", "says"),
    [(int, FINAL), ("Busy", FINAL), ("", FINAL), (7, FINAL), (Busy, "final"), (Busy, None)],
)
def test_what_makes_no_sense_is_refused(error: Any, says: Any) -> None:
    """P8"""
    with pytest.raises(UsageError):
        register(error, says)


@pytest.mark.parametrize(
    ("path", "state", "raised_again"),
    [
        ("/400", "failed", EffectFailed),
        ("/429", "absent", httpx.HTTPStatusError),
        ("/503", "unknown", EffectUnknown),
        ("/reset-after", "unknown", EffectUnknown),
    ],
)
def test_an_effect_takes_each_answer_for_what_it_is(
    app: Any,  # noqa: F811 - the fixture
    begin: Any,  # noqa: F811 - the fixture
    rogue: Rogue,
    path: str,
    state: str,
    raised_again: type[Exception],
) -> None:
    """E13: refused for good, for now, or nobody knows; nothing but the second calls again."""

    @app.job()  # type: ignore[untyped-decorator]  # an App
    def bill() -> None: ...

    bill.using(key="2026-03").enqueue()
    run = begin()
    before = len(rogue.heard)

    def charge() -> str:
        httpx.post(f"{rogue.url}{path}", json={}).raise_for_status()
        return "r-1"

    with pytest.raises((httpx.HTTPError, EffectUnknown)):
        run.effect("charge", charge, final=httpx.HTTPStatusError)
    effect = app.effects.get("bill/2026-03", "charge")
    with pytest.raises(raised_again):
        run.effect("charge", charge, final=httpx.HTTPStatusError)

    assert ("absent" if effect is None else effect.state) == state
    assert len(rogue.heard) - before == (2 if state == "absent" else 1)
