"""A relay on loopback that counts what a driver sends to PostgreSQL.

Drivers differ in how they send a statement (in one message, or parsed, bound and executed), so the
messages are counted: a statement is a Query or an Execute, a round trip ends with Query or Sync.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit


class Counting:
    """Relays to the server at ``url``, from the block's beginning to its end."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        user, port = parts.username or "postgres", self._listener.getsockname()[1]
        self.url = f"postgresql://{user}@127.0.0.1:{port}{parts.path}?sslmode=disable"
        self.reset()

    def __enter__(self) -> Counting:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def reset(self) -> None:
        self.statements = self.round_trips = 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(each)
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            threading.Thread(target=_relay, args=(server, client), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        stream = client.makefile("rb")
        with suppress(OSError, EOFError):
            server.sendall(_body(stream, b""))  # the startup message has no kind
            while kind := stream.read(1):
                if kind in (b"Q", b"E"):
                    self.statements += 1
                if kind in (b"Q", b"S"):
                    self.round_trips += 1
                server.sendall(_body(stream, kind))
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def _body(stream: Any, kind: bytes) -> bytes:
    size = stream.read(4)
    if len(size) < 4:
        raise EOFError
    return kind + size + bytes(stream.read(int.from_bytes(size, "big") - 4))


def _relay(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            to.sendall(data)
    with suppress(OSError):
        to.shutdown(socket.SHUT_RDWR)
