"""The demo's mail provider: over real HTTP, with idempotency keys as providers have them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from onejob.demo.mail import Mailer
from onejob.demo.patience import Stuck
from onejob.demo.provider import Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as listening:
        yield listening


def test_without_a_key_every_request_delivers(provider: Provider) -> None:
    mailer = Mailer(provider.url, "replica 1")

    mailer.send(7)
    mailer.send(7)
    mailer.close()

    assert provider.delivered() == {7: 2}


def test_the_same_key_delivers_once_and_gets_the_first_answer_again(provider: Provider) -> None:
    mailer = Mailer(provider.url, "replica 1")

    first = mailer.send(7, "oj-1")
    again = mailer.send(7, "oj-1")
    other = mailer.send(8, "oj-2")
    mailer.close()

    assert first == again
    assert other != first
    assert provider.delivered() == {7: 1, 8: 1}
    assert [asked.delivered for asked in provider.requests] == [True, False, True]


def test_an_ambush_holds_the_answer_back_after_the_mail_is_out(provider: Provider) -> None:
    mailer = Mailer(provider.url, "replica 1")
    answers: list[object] = []

    def send() -> None:
        answers.append(mailer.send(7))
        mailer.close()

    with provider.ambush(1) as ambush:
        caller = threading.Thread(target=send)
        caller.start()
        asked = ambush.wait(5)
        delivered, answered = provider.delivered(), list(answers)
    caller.join(5)

    assert (asked.replica, asked.customer) == ("replica 1", 7)
    assert (delivered, answered) == ({7: 1}, [])
    assert len(answers) == 1


def test_an_ambush_that_nobody_steps_into_ends(provider: Provider) -> None:
    with provider.ambush(5) as ambush, pytest.raises(Stuck, match="mail number 5"):
        ambush.wait(0.01)
