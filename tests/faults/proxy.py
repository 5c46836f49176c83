"""A way to a server that can fall silent: it goes on taking bytes, and passes nothing on.

As a frozen server, a paused pooler or a broken middlebox does. TCP sees nothing wrong with it.
"""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on loopback and passes bytes on to ``port``, until told to fall silent."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._silent, self._over = threading.Event(), threading.Event()
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(5)
        for end in (*self._open, self._listener):
            end.close()
        self._selector.close()

    def fall_silent(self) -> None:
        """Pass nothing on any more, in either direction."""
        self._silent.set()

    def speak_again(self) -> None:
        """Pass on what has come meanwhile, and all that follows."""
        self._silent.clear()

    def _serve(self) -> None:
        while not self._over.is_set():
            if self._silent.is_set():
                self._over.wait(0.02)
                continue
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._pass_on(key.fileobj, key.data)  # type: ignore[arg-type]

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(("127.0.0.1", self._to))
        self._open += [near, far]
        self._selector.register(near, selectors.EVENT_READ, far)
        self._selector.register(far, selectors.EVENT_READ, near)

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        try:
            data = source.recv(65_536)
            to.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (source, to):
                if end in {key.fileobj for key in self._selector.get_map().values()}:
                    self._selector.unregister(end)
                end.close()
