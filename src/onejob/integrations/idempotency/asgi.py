"""The middleware for ASGI: Starlette, FastAPI, Django under ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any, Final

from onejob.core.idempotency import HEADER, Answer, NotKept, replayed
from onejob.inbox import AsyncReceived
from onejob.integrations.fencing import ASGIApp, Message, Receive, Scope, Send
from onejob.integrations.idempotency import problem
from onejob.integrations.idempotency.problem import Problem
from onejob.integrations.idempotency.request import CLAIM, Request
from onejob.integrations.idempotency.rules import Idempotency, is_named
from onejob.steps import Steps, acarry

#: Bodies up to this many bytes are hashed in the loop; larger ones in a thread.
INLINE_BYTES: Final = 16_384

#: Ways to answer that go around what is held back here.
_AROUND: Final = "http.response."


class ASGIIdempotency(Idempotency[ASGIApp]):
    """``web.add_middleware(ASGIIdempotency, onejob_app, caller=...)``; see :class:`Idempotency`.

    A service whose client has gone away goes on, so that its answer can be kept. A stream that is
    passed on (an event stream, or an answer that grew too large to keep) ends with its client.
    """

    in_a_loop = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry a request out once, or answer it from what is known of it."""
        if scope["type"] != "http" or not self._concerns(scope["method"], scope["path"]):
            await self.service(scope, receive, send)
            return
        request = _request(scope)
        key = self._key(request.headers.get(HEADER.lower()))
        if key is None:
            await self.service(scope, receive, send)
        elif isinstance(key, Problem):
            await _tell(send, key)
        else:
            await self._once(request, key, scope, receive, send)

    async def _once(
        self, request: Request, key: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        caller = self._caller(request)
        if isawaitable(caller):
            caller = await caller
        if not is_named(caller):
            await _tell(send, problem.NO_CALLER)
            return
        body = await _body(request, receive, self.body_bytes)
        if body is None:
            return  # the client went away before it had said what it wants
        if isinstance(body, Problem):
            await _tell(send, body)
            return
        if len(body) <= INLINE_BYTES:
            asked = self._fingerprint(request, body)
        else:
            asked = await asyncio.to_thread(self._fingerprint, request, body)
        found = await self._acarry(self._claim(self._inbox.areceive, caller, key, asked))
        match found:
            case Problem():
                await _tell(send, found)
            case Answer():
                await _send_all(send, found.status, replayed(found), found.body)
            case _:
                extensions = scope.get("extensions") or {}
                inner = {
                    **scope,
                    CLAIM: self._told(found, key),
                    "extensions": {n: v for n, v in extensions.items() if n[:14] != _AROUND},
                }
                await self._perform(found, inner, body, receive, send)

    async def _perform(
        self, received: AsyncReceived, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> None:
        async def settle(answer: Answer | NotKept) -> Problem | None:
            told: Problem | None = await self._acarry(self._settle(received, answer))
            return told

        held = _Held(send, self.response_bytes, settle)
        try:
            await self.service(scope, _Given(body, receive, held), held.take)
        except Exception as error:
            # A cancelled one may go on in a thread: its claim stays, and lapses by itself.
            if not held.settled:
                await self._acarry(self._failed(received, f"raised {type(error).__name__}"))
            raise
        if not held.settled:
            await self._acarry(self._failed(received, "ended before its answer did"))
            await held.let_go()

    async def _acarry(self, steps: Steps[Any]) -> Any:
        return await acarry(steps, self._inbox.services().arun())


class _Held:
    """What a service answers, held back until it is complete and recorded; or passed on."""

    def __init__(
        self,
        send: Send,
        limit: int,
        settle: Callable[[Answer | NotKept], Awaitable[Problem | None]],
    ) -> None:
        self._send, self._limit, self._settle = send, limit, settle
        self._start: Message | None = None
        self._body = bytearray()
        self.passing = self.settled = False
        self.free = asyncio.Event()

    async def take(self, message: Any) -> None:
        """Take a message of the service's."""
        match message["type"]:
            case "http.response.start":
                self._start = message
                if _is_stream(message):
                    await self.let_go()
            case "http.response.body":
                self._body += message.get("body", b"")
                if not message.get("more_body", False):
                    await self._end()
                elif self.passing or len(self._body) > self._limit:
                    await self.let_go()
            case _:
                await self._send(message)

    async def let_go(self) -> None:
        """Pass on what has come so far, and what follows as it comes."""
        if not self.passing and self._start is not None:
            await self._send(self._start)
        self.passing = True
        self.free.set()
        if self._body:
            body, self._body = bytes(self._body), bytearray()
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _end(self) -> None:
        assert self._start is not None, "an answer has a beginning"
        status, body = self._start["status"], bytes(self._body)
        answer: Answer | NotKept = NotKept(status)
        if not self.passing and len(body) <= self._limit:
            answer = Answer(status, _texts(self._start.get("headers", ())), body)
        # Before the last byte, and of a kept answer before the first: nobody is given what a
        # repeat would not get.
        instead = await self._settle(answer)
        self.settled = True
        self.free.set()
        if not self.passing:
            if instead is not None:
                await _tell(self._send, instead)
                return
            await self._send(self._start)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


class _Given:
    """What the service receives: the body, once, and its client's end only where it matters."""

    def __init__(self, body: bytes, receive: Receive, held: _Held) -> None:
        self._body: bytes | None = body
        self._receive, self._held = receive, held

    async def __call__(self) -> Any:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._held.free.wait()
        if self._held.settled:
            return {"type": "http.disconnect"}
        return await self._receive()


async def _body(request: Request, receive: Receive, limit: int) -> bytes | Problem | None:
    """Read the body; None where the client goes away first."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        return problem.too_large(limit)
    read = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        read += message.get("body", b"")
        if len(read) > limit:
            return problem.too_large(limit)
        if not message.get("more_body", False):
            return bytes(read)


def _request(scope: Scope) -> Request:
    headers: dict[str, str] = {}
    for name, value in _texts(scope["headers"]):
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    query = scope.get("query_string", b"").decode("latin-1")
    return Request(scope["method"], scope["path"], query, headers, scope)


def _texts(headers: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


def _is_stream(start: Message) -> bool:
    return any(
        name.lower() == "content-type" and value.lower().startswith("text/event-stream")
        for name, value in _texts(start.get("headers", ()))
    )


async def _tell(send: Send, told: Problem) -> None:
    await _send_all(send, int(told.status), told.headers, told.body)


async def _send_all(
    send: Send, status: int, headers: Iterable[tuple[str, str]], body: bytes
) -> None:
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
