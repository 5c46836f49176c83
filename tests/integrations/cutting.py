"""A way to a server that cuts connections as it is told: TCP as clients meet it on bad days."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal, Self

Cut = Literal["before", "during", "after"]


class CuttingProxy:
    """Passes each connection on to ``port``; the next ones are cut as ``cuts`` says, in order.

    ``before`` the request has reached the server, ``during`` its work (once ``at_work`` returns),
    ``after`` the server has answered: that answer is lost. Then none is cut any more.
    """

    def __init__(self, port: int, cuts: Iterator[Cut], at_work: Callable[[], object]) -> None:
        self._to, self._cuts, self._at_work = port, cuts, at_work
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lost: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                self._pass_on(client, next(self._cuts, None))

    def _pass_on(self, client: socket.socket, cut: Cut | None) -> None:
        request = _whole(client)
        if cut == "before":
            return
        with socket.create_connection(("127.0.0.1", self._to), timeout=10) as server:
            server.sendall(request)
            if cut == "during":
                self._at_work()
                return
            answer = b"".join(iter(lambda: server.recv(65_536), b""))
        if cut == "after":
            self.lost.append(answer)
        else:
            client.sendall(answer)


def _whole(client: socket.socket) -> bytes:
    """Return a request with a Content-Length, head and body."""
    client.settimeout(10)
    request = b""
    while b"\r\n\r\n" not in request:
        request += client.recv(65_536)
    head, _, body = request.partition(b"\r\n\r\n")
    [length] = [
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    while len(body) < length:
        part = client.recv(65_536)
        request, body = request + part, body + part
    return request
