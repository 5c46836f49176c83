"""Clients that try again by themselves: the error of the last try is no word on the first."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onejob.outcomes import FINAL, NOT_SENT, REFUSED, UNKNOWN
from outcomes.rogue import Rogue, closed_port
from outcomes.test_http_clients import SHORT, meant


@contextmanager
def heard_once() -> Iterator[str]:
    """Yield a provider that takes one request, hangs up, and is gone when one tries again."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def serve() -> None:
        connection, _ = listener.accept()
        listener.close()
        connection.recv(65_536)
        connection.close()

    server = threading.Thread(target=serve)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.join(10)
    assert not server.is_alive()


def test_urllib3_that_was_heard_and_tried_again_is_unknown() -> None:
    """E13: a PUT is sent once more after it was heard; then the connection is refused."""
    import urllib3

    def put(url: str) -> None:
        with urllib3.PoolManager() as pool:
            pool.request("PUT", url, body=b"{}", timeout=SHORT)

    with heard_once() as url:
        assert meant(lambda: put(url)) is UNKNOWN
    # Where none of the four tries had a connection, nothing was sent.
    assert meant(lambda: put(f"http://127.0.0.1:{closed_port()}")) is NOT_SENT


def test_requests_that_was_heard_and_tried_again_is_unknown() -> None:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    def post(url: str) -> None:
        with requests.Session() as session:
            again = Retry(2, allowed_methods=None, backoff_factor=0)
            session.mount("http://", HTTPAdapter(max_retries=again))
            session.post(url, json={}, timeout=SHORT)

    with heard_once() as url:
        assert meant(lambda: post(url)) is UNKNOWN
    assert meant(lambda: post(f"http://127.0.0.1:{closed_port()}")) is NOT_SENT


def test_an_answer_to_a_second_try_is_unknown(rogue: Rogue) -> None:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    def post(status: int) -> None:
        with requests.Session() as session:
            again = Retry(1, status_forcelist=[429], allowed_methods=None, raise_on_status=False)
            session.mount("http://", HTTPAdapter(max_retries=again))
            session.post(f"{rogue.url}/{status}", json={}, timeout=SHORT).raise_for_status()

    assert meant(lambda: post(429)) is UNKNOWN
    assert meant(lambda: post(409)) is REFUSED


def test_stripe_that_was_heard_and_tried_again_is_unknown() -> None:
    import stripe

    def create(url: str, tries: int) -> None:
        http = stripe.RequestsClient(timeout=SHORT)
        try:
            client = stripe.StripeClient(
                "sk_test_x",
                base_addresses={"api": url},
                max_network_retries=tries,
                http_client=http,
            )
            client.v1.customers.create({"name": "Ada"})
        finally:
            http.close()

    with heard_once() as url:
        assert meant(lambda: create(url, 1)) is UNKNOWN
    closed = f"http://127.0.0.1:{closed_port()}"
    assert meant(lambda: create(closed, 0)) is NOT_SENT
    assert meant(lambda: create(closed, 1)) is UNKNOWN  # what the first came to, it does not keep


def test_aiohttp_that_repeats_over_a_new_connection_is_unknown() -> None:
    """A kept connection was cut as it carried a PUT; the second one is refused."""
    import aiohttp

    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    gone = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        connection.recv(65_536)
        listener.close()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        connection.recv(65_536)  # the second request: heard, and never answered
        connection.close()
        gone.set()

    server = threading.Thread(target=serve)
    server.start()

    async def twice() -> None:
        async with aiohttp.ClientSession() as client:
            async with client.put(url, json={}):
                pass
            async with client.put(url, json={}):
                pass

    assert meant(lambda: asyncio.run(twice())) is UNKNOWN
    assert gone.wait(10)
    server.join(10)


def retried_by_tenacity(call: Callable[[], None]) -> None:
    """What a loop of tenacity's does, with its own name on the frame."""
    namespace = {"__name__": "tenacity", "call": call}
    exec("def again():\n    call()", namespace)
    namespace["again"]()  # type: ignore[operator]  # made by exec


def test_what_comes_out_of_a_retry_library_is_unknown(rogue: Rogue) -> None:
    import httpx

    def refused() -> None:
        httpx.post(f"http://127.0.0.1:{closed_port()}", timeout=SHORT)

    def declined() -> None:
        httpx.post(f"{rogue.url}/400", timeout=SHORT).raise_for_status()

    assert [meant(refused), meant(declined)] == [NOT_SENT, FINAL]
    assert meant(lambda: retried_by_tenacity(refused)) is UNKNOWN
    assert meant(lambda: retried_by_tenacity(declined)) is UNKNOWN


def test_no_place_in_a_pool_was_not_sent(rogue: Rogue) -> None:
    """E13: the request waited for one of ours, and never left."""
    import httpx
    import urllib3

    def by_httpx() -> None:
        bounds = httpx.Limits(max_connections=1)
        timeout = httpx.Timeout(SHORT, pool=0.01, read=30)
        client = httpx.Client(limits=bounds, timeout=timeout)
        with client, client.stream("GET", f"{rogue.url}/200"):
            client.post(f"{rogue.url}/200")

    def by_urllib3() -> None:
        bounds = {"maxsize": 1, "block": True, "retries": False}
        pool = urllib3.HTTPConnectionPool("127.0.0.1", rogue.port, **bounds)
        with pool, pool.request("GET", "/200", preload_content=False):
            pool.request("POST", "/200", pool_timeout=0.01)

    assert meant(by_httpx) is NOT_SENT
    assert meant(by_urllib3) is NOT_SENT
    assert meant(lambda: asyncio.run(by_aiohttp(rogue))) is NOT_SENT


async def by_aiohttp(rogue: Rogue) -> None:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as client:
        before = len(rogue.heard)
        held = asyncio.ensure_future(client.get(f"{rogue.url}/silent"))
        while len(rogue.heard) == before:  # noqa: ASYNC110 - a thread's list, not the loop's
            await asyncio.sleep(0.01)
        try:
            timeout = aiohttp.ClientTimeout(connect=0.05)
            async with client.post(f"{rogue.url}/200", timeout=timeout):
                pass
        finally:
            held.cancel()
            await asyncio.gather(held, return_exceptions=True)
