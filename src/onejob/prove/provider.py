"""Somebody outside: a payment provider that may do what it is asked without our hearing of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from onejob.effect import NotSent
from onejob.prove.history import History, Landed
from onejob.prove.virtual import VirtualLoop


class Trouble(Exception):
    """What goes wrong on purpose."""


class ProviderSilent(Trouble):
    """No answer came: it may have happened."""


class ProviderDeclined(Trouble):
    """The provider refused for good."""


@dataclass(frozen=True, slots=True)
class Mood:
    """What the provider does with one call: when it arrives, and what is heard of it."""

    flight: int
    answer: str = "yes"
    """yes, silent (it lands, no answer), lost (it never lands, no answer), not sent, declined."""


@dataclass(slots=True)
class Provider:
    """Calls land in the world's time, even when their caller has died on the way."""

    loop: VirtualLoop
    history: History
    done: dict[tuple[str, str], str] = field(default_factory=dict)
    flying: dict[tuple[str, str], int] = field(default_factory=dict)

    async def charge(
        self, scope: str, key: str, provider_key: str, mood: Mood, *, keyed: bool
    ) -> str:
        """Ask it to do something once; returns its receipt."""
        if mood.answer == "not sent":
            raise NotSent("no route")
        reply: asyncio.Future[str] = self.loop.create_future()
        self.flying[scope, key] = self.flying.get((scope, key), 0) + 1
        self.loop.later(mood.flight, self._land, scope, key, provider_key, mood, keyed, reply)
        return await reply

    def knows(self, scope: str, key: str) -> str | None:
        """Answer a question: "done", "not done", or None while a call is on its way."""
        if self.flying.get((scope, key), 0):
            return None
        return "done" if (scope, key) in self.done else "not done"

    def _land(
        self,
        scope: str,
        key: str,
        provider_key: str,
        mood: Mood,
        keyed: bool,
        reply: asyncio.Future[Any],
    ) -> None:
        self.flying[scope, key] -= 1
        if mood.answer in ("yes", "silent"):
            harmless = keyed and self.done.get((scope, key)) == provider_key
            self.history.add(Landed(self.loop.micros, scope, key, provider_key, harmless))
            self.done[scope, key] = provider_key
        if reply.done():
            return
        match mood.answer:
            case "yes":
                reply.set_result(f"receipt of {key}")
            case "declined":
                reply.set_exception(ProviderDeclined("no funds"))
            case _:
                reply.set_exception(ProviderSilent("timed out"))
