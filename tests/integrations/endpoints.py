"""One service behind either middleware, and a client that asks it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from onejob import App
from onejob.integrations.idempotency import (
    ASGIIdempotency,
    Claim,
    Request,
    WSGIIdempotency,
    claim_of,
)


@dataclass(frozen=True, slots=True)
class Got:
    """What the service was asked."""

    path: str
    body: bytes
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class Said:
    """What the service says; each of ``parts`` is sent by itself."""

    status: int = 201
    headers: list[tuple[str, str]] = field(default_factory=list)
    parts: Iterable[bytes] = (b"",)


Handler = Callable[[Got], Said]


class Shop:
    """Takes orders, and counts them. ``going_on`` holds an order up until it is set."""

    def __init__(self) -> None:
        self.orders: list[Got] = []
        self.begun, self.going_on = threading.Event(), threading.Event()
        self.going_on.set()

    def __call__(self, got: Got) -> Said:
        self.begun.set()
        assert self.going_on.wait(10)
        self.orders.append(got)
        number = len(self.orders)
        return Said(
            headers=[
                ("Content-Type", "text/plain"),
                ("Location", f"/orders/{number}"),
                ("Set-Cookie", f"session={number}"),
            ],
            parts=(b"order ", str(number).encode()),
        )


def by_account(request: Request) -> str | None:
    """Stand for a verified account."""
    return request.headers.get("x-account")


def asgi(handler: Handler) -> Any:
    """Return an ASGI service of a handler, which gets a thread."""

    async def service(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        said = await asyncio.to_thread(handler, Got(scope["path"], body, claim_of(scope)))
        raw = [(name.lower().encode(), value.encode()) for name, value in said.headers]
        await send({"type": "http.response.start", "status": said.status, "headers": raw})
        for part in said.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return service


def wsgi(handler: Handler) -> Any:
    """Return a WSGI service of a handler."""

    def service(environ: Any, start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        said = handler(Got(environ["PATH_INFO"], body, claim_of(environ)))
        start_response(f"{said.status} Told", said.headers)
        return said.parts

    return service


class Endpoint:
    """A service behind the middleware of its kind."""

    def __init__(self, kind: str, app: App, handler: Handler, **options: Any) -> None:
        options = {"caller": by_account, **options}
        self.transport: Any
        if kind == "asgi":
            self.middleware: Any = ASGIIdempotency(asgi(handler), app, **options)
        else:
            self.middleware = WSGIIdempotency(wsgi(handler), app, **options)

    def ask(
        self,
        key: str | None,
        body: Any = b"tea",
        *,
        path: str = "/orders",
        method: str = "POST",
        account: str | None = "ada",
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Ask it, and return its whole answer."""
        told = {**(headers or {})}
        if key is not None:
            told["Idempotency-Key"] = key
        if account is not None:
            told["X-Account"] = account
        if isinstance(self.middleware, WSGIIdempotency):
            with httpx.Client(transport=httpx.WSGITransport(app=self.middleware)) as client:
                return client.request(method, f"http://shop{path}", headers=told, content=body)

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.middleware)
            async with httpx.AsyncClient(transport=transport) as client:
                return await client.request(
                    method, f"http://shop{path}", headers=told, content=body
                )

        return asyncio.run(asked())
