"""A fence in front of a service of your own: requests that carry an older token are refused.

A holder sends its fencing token in the header ``Fencing-Token``; the highest one that has come for
a resource is kept in the store. In the order of the answers:

* 400 where the header is no token, or one that the store cannot have given out, 428 where it is
  missing and ``required``;
* 400 where a function of the path gives no name for it: too long, or with what no name may have;
* 409 where a higher token has come for this resource before, with that token in the body;
* 503 where the store does not answer: a request that cannot be checked is not let through.

This stops every request that arrives after the new holder has been seen. One that is already past
the fence goes on: where that matters, call ``app.fence`` again in the transaction that writes.

A websocket is judged once, as the request that opens it; what is sent through it later is not.

A ``resource`` that is a function is given the URL's path as text, whole: with what the service is
mounted at, so that it names the same one behind either middleware.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from onejob.app import App
from onejob.commands import fences
from onejob.core.names import check_name
from onejob.core.run import Token
from onejob.core.time import SECOND, Span
from onejob.errors import StaleToken, StoreError, UsageError

HEADER: Final = "Fencing-Token"

_TOKEN = re.compile(r"[1-9]\d{0,18}")
#: The check is one statement; nothing of ours stays open.
_IDLE: Final = Span(5 * SECOND)
#: A websocket is closed for a policy of ours.
_POLICY: Final = 1008

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Environ: TypeAlias = dict[str, Any]
StartResponse: TypeAlias = Callable[..., Any]
WSGIApp: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]

#: A name for what is protected, or a function of the request's path that gives one.
Resource: TypeAlias = str | Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer instead of the service's own."""

    status: HTTPStatus
    error: str
    current: int = 0

    def body(self) -> bytes:
        """Return it as JSON."""
        told: dict[str, object] = {"code": self.status.phrase.lower().replace(" ", "_")}
        if self.current:
            told = {"code": StaleToken.code, "current": self.current}
        return json.dumps({**told, "error": self.error}).encode()


class Fence:
    """What both middlewares share: the resource of a path, and the judgement of one header."""

    def __init__(self, app: App, resource: Resource, *, required: bool) -> None:
        if isinstance(resource, str):
            check_name(resource, what="resource")
        elif not callable(resource):
            raise UsageError(f"resource={resource!r} is neither a name nor a function of a path.")
        self._app, self._resource, self._required = app, resource, required

    def refuses(self, path: str, header: str | None) -> Refusal | None:
        """Judge one request, and remember its token. Asks the store once."""
        if header is None:
            if not self._required:
                return None
            return Refusal(
                HTTPStatus.PRECONDITION_REQUIRED,
                f"send the fencing token of your lock in {HEADER}.",
            )
        token = header.strip()
        if not _TOKEN.fullmatch(token) or int(token) >= fences.TOKENS_BELOW:
            return Refusal(HTTPStatus.BAD_REQUEST, f"{HEADER} is no fencing token.")
        try:
            return self._judged(self._named(path), Token(int(token)))
        except UsageError as error:
            return Refusal(HTTPStatus.BAD_REQUEST, str(error))
        except StoreError:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the token cannot be checked now.")

    def _named(self, path: str) -> str:
        if isinstance(self._resource, str):
            return self._resource
        return check_name(self._resource(path), what="resource")

    def _judged(self, resource: str, token: Token) -> Refusal | None:
        run, scope = self._app.store.run, self._app.name
        if run(fences.check(scope, resource, token, idle_limit=_IDLE)):
            return None
        error = fences.refused(resource, token, run(fences.known(scope, resource)))
        if not isinstance(error, StaleToken):
            raise error
        return Refusal(HTTPStatus.CONFLICT, str(error), error.current)


class ASGIFence:
    """``app = ASGIFence(app, onejob_app, resource="ledger-export")`` for an ASGI application."""

    def __init__(
        self, service: ASGIApp, app: App, *, resource: Resource, required: bool = True
    ) -> None:
        self._service, self._fence = service, Fence(app, resource, required=required)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on unless it is refused."""
        if scope["type"] not in ("http", "websocket"):
            await self._service(scope, receive, send)
            return
        wanted = HEADER.lower().encode()
        found = [value for name, value in scope["headers"] if name.lower() == wanted]
        # Two of them are no token: which one the holder meant nobody knows.
        header = b", ".join(found).decode("latin-1") if found else None
        refusal = await asyncio.to_thread(self._fence.refuses, scope["path"], header)
        if refusal is None:
            await self._service(scope, receive, send)
            return
        for message in _answer(scope, refusal):
            await send(message)


def _answer(scope: Scope, refusal: Refusal) -> Iterator[Message]:
    kind = "http.response"
    if scope["type"] == "websocket":
        kind = "websocket.http.response"
        if kind not in (scope.get("extensions") or {}):
            # Before it was accepted, which the server answers by 403.
            yield {"type": "websocket.close", "code": _POLICY, "reason": refusal.status.phrase}
            return
    body = refusal.body()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    yield {"type": f"{kind}.start", "status": int(refusal.status), "headers": headers}
    yield {"type": f"{kind}.body", "body": body}


class WSGIFence:
    """``app.wsgi_app = WSGIFence(app.wsgi_app, onejob_app, resource=...)`` for a WSGI one."""

    def __init__(
        self, service: WSGIApp, app: App, *, resource: Resource, required: bool = True
    ) -> None:
        self._service, self._fence = service, Fence(app, resource, required=required)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass a request on unless it is refused."""
        header = environ.get(f"HTTP_{HEADER.upper().replace('-', '_')}")
        refusal = self._fence.refuses(path_of(environ), header)
        if refusal is None:
            return self._service(environ, start_response)
        body = refusal.body()
        start_response(
            f"{refusal.status.value} {refusal.status.phrase}",
            [("Content-Type", "application/json"), ("Content-Length", str(len(body)))],
        )
        return [body]


def path_of(environ: Environ) -> str:
    """Return the whole path as text: WSGI gives its bytes, one in each character."""
    given: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return given.encode("latin-1").decode("utf-8", "surrogateescape")
