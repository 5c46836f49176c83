"""Pings for a cron monitor: at the start of a run, at its success and at its failure.

The URL is the one that the monitor gives out: ``URL/start``, ``URL`` and ``URL/fail`` are asked
for. Pings leave from a thread of their own, one after another, each within a bound; one that fails
is told and forgotten. No run waits for one, and none fails of one: a monitor that hears nothing
says so, which is its purpose.
"""

from __future__ import annotations

import queue
import threading
from typing import Final
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from onejob.errors import UsageError
from onejob.runtime.events import Event, Events

#: How long a monitor may take to answer.
TIMEOUT_SECONDS: Final = 5.0
#: Pings that wait at most; where a monitor does not answer, the newest ones are dropped.
WAITING_MAX: Final = 1_000
#: How long the thread stays when nothing is to be sent.
IDLE_SECONDS: Final = 10.0

_OVER: Final = {"run.retried", "run.stale", "run.lost", "run.unknown", "run.parked"}


def check_heartbeat(url: object) -> str:
    """Return the URL of a monitor, or raise UsageError. It may be a secret: it is not repeated."""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            "heartbeat must be the URL that a cron monitor gives out, such as "
            "'https://monitor.example/ping/KEY'."
        )
    return str(url).rstrip("/")


class Heartbeat:
    """Tells one monitor of the runs of one job in this process."""

    def __init__(self, url: str, events: Events) -> None:
        self._url, self._events = url, events
        self._running: set[int] = set()
        events.listen(self._hear)

    def begun(self, run: int) -> None:
        """Tell that an attempt begins."""
        self._running.add(run)
        self._ping("/start")

    def completed(self, run: int) -> None:
        """Tell that a run has completed itself, in a transaction of its own."""
        if run in self._running:
            self._running.discard(run)
            self._ping("")

    def _hear(self, event: Event) -> None:
        run = event.fields.get("run")
        if not isinstance(run, int) or run not in self._running:
            return
        if event.name == "run.ended":
            self.completed(run)
        elif event.name == "run.failed":
            self._running.discard(run)
            if event.fields.get("outcome") != "cancelled":
                self._ping("/fail")
        elif event.name in _OVER:
            self._running.discard(run)

    def _ping(self, what: str) -> None:
        if not _SENDER.take(self._url + what, self._events):
            self._trouble("too many pings wait already")

    def _trouble(self, why: str) -> None:
        self._events.emit("heartbeat.failed", host=urlsplit(self._url).hostname, error=why)


class _Sender:
    """One thread for all pings of a process, there only while there is something to send."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[tuple[str, Events]] = queue.Queue(WAITING_MAX)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def take(self, url: str, events: Events) -> bool:
        """Send a ping soon. False: too many wait."""
        with self._lock:
            try:
                self._waiting.put_nowait((url, events))
            except queue.Full:
                return False
            # A forked child has the object, and not the thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._main, name="onejob-heartbeat", daemon=True
                )
                self._thread.start()
        return True

    def _main(self) -> None:
        while True:
            try:
                url, events = self._waiting.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._thread = None
                        return
                continue
            _send(url, events)


def _send(url: str, events: Events) -> None:
    try:
        with urlopen(Request(url, headers={"User-Agent": "onejob"}), timeout=TIMEOUT_SECONDS):  # noqa: S310 - checked: http or https
            pass
    except Exception as error:  # noqa: BLE001 - a monitor's trouble is never a run's
        why = f"{type(error).__name__}: {getattr(error, 'reason', error)}"
        events.emit("heartbeat.failed", host=urlsplit(url).hostname, error=why)


_SENDER = _Sender()
