"""A provider on loopback that misbehaves in the way that its path names."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

_AT_ONCE = struct.pack("ii", 1, 0)


class Rogue:
    """Paths: ``/reset-after``, ``/silent``, ``/moved`` (to a closed port), ``/moved-to-404``,
    and ``/NNN`` for a status.

    With ``reset_at_once`` it hangs up before it has read anything, whatever the path.
    """

    def __init__(self, *, reset_at_once: bool = False) -> None:
        self.heard: list[str] = []
        self._reset_at_once = reset_at_once
        self._kept: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.close()
        for kept in self._kept:
            kept.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        if self._reset_at_once:
            # Once there is something to read: any earlier, and it is an error of connecting.
            connection.recv(1, socket.MSG_PEEK)
            _reset(connection)
            return
        with contextlib.suppress(OSError):
            while head := _head(connection):
                path = head.split(b" ", 2)[1].decode()
                self.heard.append(path)
                what = path.strip("/").split("/")[0].split("?")[0]
                if what == "reset-after":
                    _reset(connection)
                    return
                if what == "silent":
                    self._kept.append(connection)
                    return
                connection.sendall(_answer(what))
        connection.close()


def _head(connection: socket.socket) -> bytes:
    """Read one request, its body too; empty where the client is gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        if name.lower() == b"expect":
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(body) < length:
        body += connection.recv(65_536)
    return head


def _answer(what: str) -> bytes:
    if what == "moved":
        where = f"Location: http://127.0.0.1:{closed_port()}/200\r\n"
        return f"HTTP/1.1 303 See Other\r\n{where}Content-Length: 0\r\n\r\n".encode()
    if what == "moved-to-404":
        return b"HTTP/1.1 303 See Other\r\nLocation: /404\r\nContent-Length: 0\r\n\r\n"
    status = int(what)
    body = b'{"error": {"type": "card_error", "message": "no", "code": "declined"}}'
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _reset(connection: socket.socket) -> None:
    """Close with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    connection.close()


def closed_port() -> int:
    """Return a port of loopback at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """Yield a port whose queue is full: who connects is left waiting."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = server.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(("127.0.0.1", port))
        yield port
