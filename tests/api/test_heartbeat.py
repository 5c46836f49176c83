"""Heartbeats: what a cron monitor hears, and that nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue

import pytest

from onejob import App, AsyncRun, Retry, Run, UsageError
from onejob import heartbeat as module
from onejob.heartbeat import check_heartbeat


class Monitor:
    """A cron monitor on loopback that notes what it is asked for."""

    def __init__(self) -> None:
        self.heard: Queue[str] = Queue()
        monitor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                monitor.heard.put(self.path)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/ping/key"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def hears(self, count: int) -> list[str]:
        return [self.heard.get(timeout=10) for _ in range(count)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    monitor = Monitor()
    yield monitor
    monitor.close()


@pytest.mark.parametrize("url", ["", "monitor.example/key", "ftp://monitor.example/key", 7])
def test_what_is_no_url_is_refused_and_not_repeated(url: object) -> None:
    with pytest.raises(UsageError, match="cron monitor") as refused:
        App("memory://").job(heartbeat=url)  # type: ignore[arg-type]  # under test

    assert not url or str(url) not in str(refused.value)


def test_a_monitor_hears_of_the_start_and_the_success(sqlite_app: App, monitor: Monitor) -> None:
    @sqlite_app.job(heartbeat=monitor.url + "/")
    def nightly() -> None: ...

    @sqlite_app.job(heartbeat=monitor.url)
    async def within(run: AsyncRun) -> None:
        async with run.transaction(complete=True):
            pass

    sqlite_app.start()
    nightly.enqueue()
    first = monitor.hears(2)
    within.enqueue()
    second = monitor.hears(2)

    assert first == second == ["/ping/key/start", "/ping/key"]


def test_a_monitor_hears_of_the_failure_once_nothing_is_tried_any_more(
    sqlite_app: App, monitor: Monitor
) -> None:
    @sqlite_app.job(heartbeat=monitor.url, retry=Retry(attempts=2, base="10ms", cap="10ms"))
    def nightly(run: Run) -> None:
        raise ValueError("no")

    sqlite_app.start()
    nightly.enqueue()

    assert monitor.hears(3) == ["/ping/key/start", "/ping/key/start", "/ping/key/fail"]


def test_a_monitor_that_is_not_there_hurts_no_run(sqlite_app: App) -> None:
    told: Queue[dict[str, object]] = Queue()
    sqlite_app.events.listen(
        lambda event: told.put(dict(event.fields)) if event.name == "heartbeat.failed" else None
    )

    @sqlite_app.job(heartbeat="http://127.0.0.1:9/secret-key")
    def nightly() -> None: ...

    sqlite_app.start()
    ended = sqlite_app.runs.wait(nightly.enqueue().run_id, timeout=10)
    failed = told.get(timeout=10)

    assert ended.outcome == "succeeded"
    assert failed["host"] == "127.0.0.1"
    assert "secret-key" not in str(failed)


def test_pings_that_nobody_takes_are_dropped_and_told(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    sqlite_app.events.listen(lambda event: told.append(event.name))
    monkeypatch.setattr(module, "_SENDER", _Full())

    beats = module.Heartbeat(check_heartbeat("http://127.0.0.1:9/key"), sqlite_app.events)
    beats.begun(1)

    assert told == ["heartbeat.failed"]


class _Full:
    def take(self, url: str, events: object) -> bool:
        return False
