"""A network that can stall: what is sent meanwhile arrives later, in order, and nobody is told."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self


class Network:
    """Listens on loopback and passes bytes on to ``host`` and ``port``."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._flowing = threading.Event()
        self._flowing.set()
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._flowing.set()
        for end in (self._listener, *self._open):
            end.close()

    def stall(self) -> None:
        """Keep what is sent from now on."""
        self._flowing.clear()

    def flow(self) -> None:
        """Deliver what was kept, and all that follows."""
        self._flowing.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
            except OSError:
                return
            self._open += [near, far]
            for source, to in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, to), daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                self._flowing.wait()
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
