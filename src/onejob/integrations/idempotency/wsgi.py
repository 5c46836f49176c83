"""The middleware for WSGI: Flask, Django, and everything else."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from onejob.core.idempotency import HEADER, Answer, NotKept, replayed
from onejob.inbox import Received
from onejob.integrations.fencing import Environ, StartResponse, WSGIApp, path_of
from onejob.integrations.idempotency import problem
from onejob.integrations.idempotency.problem import Problem
from onejob.integrations.idempotency.request import CLAIM, Request
from onejob.integrations.idempotency.rules import Idempotency, is_named
from onejob.steps import Steps, carry

_READ = 65_536


class WSGIIdempotency(Idempotency[WSGIApp]):
    """``web.wsgi_app = WSGIIdempotency(web.wsgi_app, onejob_app, caller=...)`` for Flask; see
    :class:`Idempotency`."""

    in_a_loop = False

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Carry a request out once, or answer it from what is known of it."""
        if not self._concerns(environ["REQUEST_METHOD"], path_of(environ)):
            return self.service(environ, start_response)
        request = _request(environ)
        key = self._key(request.headers.get(HEADER.lower()))
        if key is None:
            return self.service(environ, start_response)
        if isinstance(key, Problem):
            return _tell(start_response, key)
        caller = self._caller(request)
        if not is_named(caller):
            return _tell(start_response, problem.NO_CALLER)
        body = _body(environ, self.body_bytes)
        if isinstance(body, Problem):
            return _tell(start_response, body)
        asked = self._fingerprint(request, body)
        found = self._carry(self._claim(self._inbox.receive, caller, key, asked))
        if isinstance(found, Problem):
            return _tell(start_response, found)
        if isinstance(found, Answer):
            start_response(_status(found.status), list(replayed(found)))
            return [found.body]
        inner = {
            **environ,
            CLAIM: self._told(found, key),
            "wsgi.input": io.BytesIO(body),
            "CONTENT_LENGTH": str(len(body)),
        }
        # It hands the server a file, past what is held back here.
        inner.pop("wsgi.file_wrapper", None)
        return self._perform(found, inner, start_response)

    def _perform(
        self, received: Received, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        held = _Held(self.response_bytes)
        try:
            coming = self.service(environ, held.start)
            try:
                parts = iter(coming)
                for part in parts:
                    held.body += part
                    if held.is_too_much:
                        start_response(*held.begun)
                        return self._passed_on(received, held, coming, parts)
                held.end()
            except BaseException:
                _close(coming)
                raise
            _close(coming)
        except Exception as error:
            self._carry(self._failed(received, f"raised {type(error).__name__}"))
            raise
        answer = Answer(held.status, held.headers, bytes(held.body))
        instead = self._carry(self._settle(received, answer))
        if instead is not None:
            return _tell(start_response, instead)
        start_response(*held.begun)
        return [answer.body]

    def _passed_on(
        self, received: Received, held: _Held, coming: Iterable[bytes], parts: Iterator[bytes]
    ) -> Iterator[bytes]:
        """Yield what has come, and the rest as it comes; then record that all of it was given."""
        why = "was not read to its end"
        try:
            yield held.pass_on()
            try:
                for part in parts:
                    yield held.pass_on() + part
            except Exception as error:
                why = f"raised {type(error).__name__}"
                raise
            yield held.pass_on()
            why = ""
        finally:
            _close(coming)
            if why:
                self._carry(self._failed(received, why))
            else:
                self._carry(self._settle(received, NotKept(held.status)))

    def _carry(self, steps: Steps[Any]) -> Any:
        return carry(steps, self._inbox.services().run())


class _Held:
    """What a service has answered so far."""

    def __init__(self, limit: int) -> None:
        self._limit, self._passing = limit, False
        self.body = bytearray()
        self.begun: tuple[str, list[tuple[str, str]]] = ("", [])

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """Be the service's ``start_response``."""
        if exc_info is not None and self._passing:
            try:
                raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        self.begun = (status, list(headers))
        return self.body.extend

    def end(self) -> None:
        """Refuse a service that ended without an answer."""
        if not self.begun[0]:
            raise RuntimeError("the service ended without having called start_response.")

    def pass_on(self) -> bytes:
        """Return what has come, and hold it no longer."""
        self._passing = True
        part = bytes(self.body)
        self.body.clear()
        return part

    @property
    def status(self) -> int:
        """Return the answer's status."""
        return int(self.begun[0][:3])

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the answer's headers."""
        return tuple(self.begun[1])

    @property
    def is_too_much(self) -> bool:
        """Tell whether it cannot be kept: it has grown too large, or is a stream of events."""
        stream = any(
            name.lower() == "content-type" and value.lower().startswith("text/event-stream")
            for name, value in self.begun[1]
        )
        return bool(self.begun[0]) and (stream or len(self.body) > self._limit)


def _body(environ: Environ, limit: int) -> bytes | Problem:
    given = environ.get("CONTENT_LENGTH") or ""
    if given:
        if not (given.isascii() and given.isdecimal()):
            return problem.INCOMPLETE
        length = int(given[:20])
        if length > limit:
            return problem.too_large(limit)
    elif environ.get("wsgi.input_terminated"):
        length = limit + 1
    elif "HTTP_TRANSFER_ENCODING" in environ:
        return problem.NO_LENGTH
    else:
        return b""
    body = bytearray()
    while len(body) < length and (
        part := environ["wsgi.input"].read(min(_READ, length - len(body)))
    ):
        body += part
    if len(body) > limit:
        return problem.too_large(limit)
    return problem.INCOMPLETE if given and len(body) < length else bytes(body)


def _request(environ: Environ) -> Request:
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    query = environ.get("QUERY_STRING", "")
    return Request(environ["REQUEST_METHOD"], path_of(environ), query, headers, environ)


def _tell(start_response: StartResponse, told: Problem) -> list[bytes]:
    start_response(_status(told.status), told.headers)
    return [told.body]


def _status(status: int) -> str:
    try:
        return f"{int(status)} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"


def _close(coming: Iterable[bytes]) -> None:
    close = getattr(coming, "close", None)
    if close is not None:
        close()
