"""The service behind the HTTP fence: what it lets through is noted in the order of coming."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from http.client import HTTPConnection
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from faults.pauses.effects import Landed
from onejob import App
from onejob.integrations.fencing import HEADER, WSGIFence

RESOURCE = "pause-http"


class _Server(ThreadingMixIn, WSGIServer):
    """A frozen client keeps its own thread waiting, and nobody else's."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that was frozen while it asked."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class Service:
    """``POST /write`` is behind the fence, ``POST /mark`` is not. One request after the other:
    the fence and what comes behind it are then one step, as in a transaction that asks both."""

    def __init__(self, app: App) -> None:
        self.landed: list[Landed] = []
        self._turn = threading.Lock()
        self._fenced = WSGIFence(self._written, app, resource=RESOURCE)
        self._server = make_server(
            "127.0.0.1", 0, self._handled, server_class=_Server, handler_class=_Quiet
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handled(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        with self._turn:
            if environ["PATH_INFO"] == "/mark":
                return self._note("mark", environ, start_response)
            return self._fenced(environ, start_response)

    def _written(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        return self._note("write", environ, start_response)

    def _note(self, kind: str, environ: Any, start_response: Any) -> Iterable[bytes]:
        token = int(environ[f"HTTP_{HEADER.upper().replace('-', '_')}"])
        self.landed.append(Landed("http", kind, token, environ["QUERY_STRING"]))
        start_response("204 No Content", [])
        return []


def send(port: int, what: str, token: int, who: str) -> int:
    """Send one request to the service; return the status of its answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", f"/{what}?{who}", headers={HEADER: str(token)})
        return connection.getresponse().status
    finally:
        connection.close()
