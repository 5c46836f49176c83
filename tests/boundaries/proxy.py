"""A TCP proxy on loopback, between PostgresStore and PostgreSQL, that understands what passes.

It reads the client's messages as far as needed to know which command is on its way: a statement's
text stands in Parse (or Query), a later Bind names it. Then, for a command that was chosen, it

* ``reply``: lets the server carry it out, and cuts the connection instead of passing the reply on,
* ``request``: passes half of the message on, and cuts the connection,

each time that it was told to; or it stands still altogether (:meth:`Proxy.hole`): bytes are taken
and kept, new connections too, until :meth:`Proxy.back`.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from onejob.stores.catalogue import Catalogue

Fault = Literal["reply", "request"]

SEVER = struct.pack("ii", 1, 0)  # linger 0: a reset, not a polite end


class Proxy:
    """Listens on a free port, from the block's beginning to its end."""

    def __init__(self, url: str, schema: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._texts = texts(schema)
        self._faults: dict[str, tuple[Fault, int]] = {}
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.injected = 0
        port = self._listener.getsockname()[1]
        user = parts.username or "postgres"
        self.url = f"postgresql://{user}@127.0.0.1:{port}{parts.path}?sslmode=disable"
        self._serve(self._accept)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.set()
        self._listener.close()
        self.cut()

    def inject(self, command: str, fault: Fault, times: int) -> None:
        """Do this to the next so many requests of a command."""
        with self._lock:
            self._faults[command] = (fault, times)

    def left(self, command: str) -> int:
        """Return how many of those are still to come."""
        with self._lock:
            return self._faults.get(command, ("reply", 0))[1]

    def hole(self) -> None:
        """Swallow everything from now on, silently."""
        self.injected += 1
        self._open.clear()

    def back(self) -> None:
        """Pass on what was kept, and everything from now on."""
        self._open.set()

    def cut(self) -> None:
        """Reset every connection that is open now."""
        with self._lock:
            mine, self._sockets = self._sockets, []
        for each in mine:
            sever(each)

    def _serve(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server, timeout=5)
            except OSError:
                return
            server.settimeout(None)
            with self._lock:
                self._sockets += [client, server]
            pair = _Pair(client, server)
            self._serve(self._requests, pair)
            self._serve(self._replies, pair)

    def _requests(self, pair: _Pair) -> None:
        stream = _Messages(pair.client)
        with suppress(OSError, EOFError):
            self._pass(pair.server, stream.startup())
            while True:
                kind, whole = stream.next()
                self._open.wait()
                fault = self._fault(pair, kind, whole)
                if fault == "request":
                    pair.server.sendall(whole[: len(whole) // 2])
                    break
                if fault == "reply":
                    pair.deaf.set()
                pair.server.sendall(whole)
        pair.sever()

    def _pass(self, to: socket.socket, data: bytes) -> None:
        self._open.wait()
        to.sendall(data)

    def _replies(self, pair: _Pair) -> None:
        with suppress(OSError):
            while data := pair.server.recv(65_536):
                if pair.deaf.is_set():
                    # Carried out: ReadyForQuery ends the reply, whatever else it says.
                    if data.endswith((b"Z\x00\x00\x00\x05I", b"Z\x00\x00\x00\x05T")):
                        break
                    continue
                self._pass(pair.client, data)
        pair.sever()

    def _fault(self, pair: _Pair, kind: bytes, whole: bytes) -> Fault | None:
        """Tell what to do to a message; it is where a chosen command is carried out."""
        body = whole[5:]
        match kind:
            case b"P":
                name, text, *_ = body.split(b"\0", 2)
                pair.prepared[name] = text
                return None
            case b"B":
                _, name, *_ = body.split(b"\0", 2)
                text = pair.prepared.get(name, b"")
            case b"Q":
                text = body.rstrip(b"\0")
            case _:
                return None
        command = self._texts.get(bytes(text))
        with self._lock:
            fault, times = self._faults.get(command or "", ("reply", 0))
            if not times:
                return None
            self._faults[str(command)] = (fault, times - 1)
            self.injected += 1
        return fault


@dataclass(slots=True)
class _Pair:
    """One client's conversation with the server."""

    client: socket.socket
    server: socket.socket
    deaf: threading.Event = field(default_factory=threading.Event)
    prepared: dict[bytes, bytes] = field(default_factory=dict)

    def sever(self) -> None:
        sever(self.client)
        sever(self.server)


class _Messages:
    """The frontend's messages, one by one."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._data = b""

    def startup(self) -> bytes:
        """The first one has no kind."""
        (length,) = struct.unpack("!i", self._read(4, keep=True))
        return self._read(length)

    def next(self) -> tuple[bytes, bytes]:
        head = self._read(5, keep=True)
        (length,) = struct.unpack("!i", head[1:])
        return head[:1], self._read(1 + length)

    def _read(self, size: int, *, keep: bool = False) -> bytes:
        while len(self._data) < size:
            data = self._source.recv(65_536)
            if not data:
                raise EOFError
            self._data += data
        found = self._data[:size]
        if not keep:
            self._data = self._data[size:]
        return found


def texts(schema: str) -> Mapping[bytes, str]:
    """Return each command's name by the text that psycopg sends for it; a commit is one too."""
    catalogue = Catalogue("postgresql", schema)
    known = {catalogue.steps(name, "numbered")[0].text.encode(): name for name in catalogue.names()}
    return {**known, b"COMMIT": "commit"}


def sever(connection: socket.socket) -> None:
    """Reset a connection."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, SEVER)
    with suppress(OSError):
        # close() alone would wait for another thread's recv() on it.
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
