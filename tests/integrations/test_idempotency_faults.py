"""Replies that are lost, and processes that are killed: each order is taken once all the same."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import pytest
import uvicorn

from integrations.cutting import Cut, CuttingProxy
from integrations.dying import orders_of
from integrations.endpoints import Endpoint, Shop
from onejob import App

TESTS = Path(__file__).parents[1]


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "onejob.db")


@pytest.fixture
def app(database: str) -> Iterator[App]:
    app = App(f"sqlite:///{database}", single_machine=True)
    app.store.init()  # type: ignore[attr-defined]
    yield app
    app.close()


class Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = False


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(kind: str, middleware: Any) -> Iterator[int]:
    """Serve it on loopback; its port."""
    if kind == "asgi":
        config = uvicorn.Config(middleware, port=0, lifespan="off", ws="none", log_level="error")
        server = uvicorn.Server(config)
        listener = config.bind_socket()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(10)
            listener.close()
        return
    with make_server("127.0.0.1", 0, middleware, Threaded, Quiet) as wsgi:
        thread = threading.Thread(target=wsgi.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield wsgi.server_port
        finally:
            wsgi.shutdown()
            thread.join(10)


@pytest.mark.parametrize("kind", ["asgi", "wsgi"])
def test_a_client_whose_replies_are_lost_gets_the_stored_one_in_the_end(
    kind: str, app: App
) -> None:
    """A client retries with one key over a connection that is cut before, during and after."""
    shop = Shop()
    shop.going_on.clear()
    cuts: list[Cut] = ["before", "during", "after", "after"]
    middleware = Endpoint(kind, app, shop).middleware
    told: list[int | str] = []

    with (
        served(kind, middleware) as port,
        CuttingProxy(port, iter(cuts), lambda: shop.begun.wait(10)) as proxy,
    ):
        while len(told) < 20 and told[-1:] != [201]:
            headers = {"Idempotency-Key": '"k-1"', "X-Account": "ada", "Connection": "close"}
            try:
                answer = httpx.post(
                    f"http://127.0.0.1:{proxy.port}/orders", headers=headers, content=b"tea"
                )
            except httpx.TransportError:
                told.append("cut")
            else:
                told.append(answer.status_code)
            if len(proxy.lost) == 1:
                shop.going_on.set()  # the one that was cut off in its work has not ended till now

    assert told[:4] == ["cut"] * 4
    assert set(told[4:-1]) <= {409}  # still at work, for a moment
    assert (answer.status_code, answer.text) == (201, "order 1")
    assert answer.headers["idempotent-replayed"] == "true"
    assert "set-cookie" not in answer.headers
    assert b" 409 " in proxy.lost[0].partition(b"\r\n")[0]
    assert len(shop.orders) == 1


@pytest.mark.parametrize(
    ("kind", "instant", "orders"),
    [("asgi", "begun", 0), ("wsgi", "written", 1), ("asgi", "recorded", 1), ("wsgi", "begun", 0)],
)
def test_a_process_that_is_killed_midway_leaves_a_stated_choice(
    kind: str, instant: str, orders: int, app: App, database: str
) -> None:
    """E18, E24: in progress until the claim's time is over, then refused, or carried out again."""
    shop = sqlite3.connect(database)
    shop.execute("CREATE TABLE orders (item TEXT)")
    killed = subprocess.run(
        [sys.executable, "-m", "integrations.dying", kind, database, instant],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        timeout=30,
        check=False,
    )
    handler = orders_of(app, database, lambda reached: None)
    refusing = Endpoint(kind, app, handler)
    repeating = Endpoint(kind, app, handler, if_unknown="repeat")

    assert killed.returncode == -signal.SIGKILL
    if instant == "recorded":
        assert [refusing.ask("k-1").text for _ in range(2)] == ["1 in all"] * 2
        return
    at_first = [endpoint.ask("k-1").json()["code"] for endpoint in (refusing, repeating)]
    assert at_first == ["in_progress", "in_progress"]
    shop.execute("UPDATE onejob_ledger SET claim_until = 1 WHERE kind = 'inbox'")
    shop.commit()
    assert refusing.ask("k-1").json()["code"] == "outcome_unknown"
    assert shop.execute("SELECT count(*) FROM orders").fetchone() == (orders,)

    # The service marks each order in the transaction that writes it: a repeat is harmless.
    assert repeating.ask("k-1").text == "1 in all"
    assert refusing.ask("k-1").text == "1 in all"
    assert shop.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    shop.close()


def test_one_that_was_taken_over_tells_what_the_other_did(app: App, database: str) -> None:
    """It took longer than it said: its client gets no second truth, and can ask again."""
    slow, fast = Shop(), Shop()
    slow.going_on.clear()
    late: list[httpx.Response] = []
    first = Endpoint("wsgi", app, slow)
    thread = threading.Thread(target=lambda: late.append(first.ask("k-1")))
    thread.start()
    assert slow.begun.wait(10)
    with sqlite3.connect(database) as shop:
        shop.execute("UPDATE onejob_ledger SET claim_until = 1 WHERE kind = 'inbox'")
    shop.close()

    taken = Endpoint("asgi", app, fast, if_unknown="repeat").ask("k-1")
    slow.going_on.set()
    thread.join(10)

    assert taken.status_code == 201
    assert (late[0].status_code, late[0].json()["code"]) == (409, "taken_over")
    assert first.ask("k-1").headers["location"] == taken.headers["location"]
