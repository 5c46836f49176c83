"""A mail provider on loopback, over real HTTP, as mail providers are.

It honours the ``Idempotency-Key`` header: the same key is answered with the first answer and
delivers nothing again. It counts what it was asked and what it delivered. An :class:`Ambush` holds
the answer to a chosen mail back, so that the asking replica can be killed or frozen at the worst
moment there is: the mail is out, and nobody has written that down.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from onejob.demo.patience import Stuck

#: How long a provider takes to accept one mail.
LATENCY_SECONDS = 0.003

#: An answer is never held back for longer than this.
HELD_SECONDS_MAX = 15.0

#: A request's body is never longer than this.
BODY_BYTES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: when (monotonic seconds), by whom, for whom, and whether it delivered."""

    at: float
    replica: str
    customer: int
    delivered: bool


@dataclass(slots=True)
class Ambush:
    """A trap at the n-th delivered mail. ``asked`` is the request that stepped into it."""

    at_mail: int
    asked: Asked | None = None
    _sprung: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> Asked:
        """Wait until the mail is delivered and its answer held back; Stuck if that never comes."""
        if not self._sprung.wait(seconds) or self.asked is None:
            raise Stuck(f"mail number {self.at_mail} was not sent within {seconds:.0f} s")
        return self.asked

    def release(self) -> None:
        """Let the answer go."""
        self._released.set()

    def hold(self, asked: Asked) -> None:
        """Hold the answer to this request back until it is released."""
        self.asked = asked
        self._sprung.set()
        self._released.wait(HELD_SECONDS_MAX)


class Provider:
    """The provider. A context manager: it listens inside, and answers nobody afterwards."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._answers: dict[str, dict[str, object]] = {}
        self._ambush: Ambush | None = None
        self._requests: list[Asked] = []
        self._mails = 0
        self._server = _Server(self)

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ambush is not None:
            self._ambush.release()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> tuple[Asked, ...]:
        """Every request so far, in order."""
        with self._changed:
            return tuple(self._requests)

    def delivered(self) -> Counter[int]:
        """Return how many mails each customer got."""
        return Counter(asked.customer for asked in self.requests if asked.delivered)

    def wait_for(self, condition: Callable[[], bool], *, seconds: float, what: str) -> None:
        """Wait until ``condition`` holds, looking again after each request; Stuck in the end."""
        until = self._clock() + seconds
        while not condition():
            if self._clock() > until:
                raise Stuck(f"{what}: not within {seconds:.0f} s")
            with self._changed:
                self._changed.wait(0.05)

    @contextmanager
    def ambush(self, at_mail: int) -> Iterator[Ambush]:
        """Set a trap at the n-th delivered mail; released at the end of the block at the latest."""
        ambush = Ambush(at_mail)
        with self._changed:
            self._ambush = ambush
        try:
            yield ambush
        finally:
            ambush.release()

    def accept(self, replica: str, customer: int, key: str) -> dict[str, object]:
        """Deliver one mail, or replay the answer to its key."""
        time.sleep(LATENCY_SECONDS)
        with self._changed:
            known = self._answers.get(key) if key else None
            asked = Asked(self._clock(), replica, customer, delivered=known is None)
            self._requests.append(asked)
            self._mails += asked.delivered
            answer = known or {"message": f"mail-{self._mails}", "customer": customer}
            if key:
                self._answers[key] = answer
            trap = self._sprung(asked)
            self._changed.notify_all()
        if trap is not None:
            trap.hold(asked)
        return answer

    def _sprung(self, asked: Asked) -> Ambush | None:
        ambush = self._ambush
        if ambush is None or not asked.delivered or self._mails < ambush.at_mail:
            return None
        self._ambush = None
        return ambush


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a caller who was killed cannot take its answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A small answer must not wait for the acknowledgement of the one before it.
    disable_nagle_algorithm = True
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - narrower, never set

    def do_POST(self) -> None:
        """Take one mail: ``{"customer": 17}``."""
        length = min(int(self.headers.get("Content-Length", 0)), BODY_BYTES_MAX)
        customer = int(json.loads(self.rfile.read(length))["customer"])
        answer = self.server.provider.accept(
            self.headers.get("X-Replica", ""), customer, self.headers.get("Idempotency-Key", "")
        )
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: the demo's own table tells."""
