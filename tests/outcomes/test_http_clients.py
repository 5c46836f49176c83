"""What the real clients raise at a real provider that misbehaves, and what we take it for.

Nothing may be called *not sent* that the provider may have heard: that is what makes two charges
of one.
"""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onejob.outcomes import FINAL, NOT_SENT, REFUSED, UNKNOWN, Meaning, meaning
from outcomes.rogue import Rogue, closed_port, full_port

#: Seconds. A server that never answers is waited for; patient enough for a busy machine's loopback.
SHORT = 0.5

Post = Callable[[str], Any]


def by_httpx(url: str) -> None:
    import httpx

    httpx.post(url, json={}, timeout=SHORT, follow_redirects=True).raise_for_status()


def by_httpx_async(url: str) -> None:
    import httpx

    async def post() -> None:
        async with httpx.AsyncClient(timeout=SHORT, follow_redirects=True) as client:
            (await client.post(url, json={})).raise_for_status()

    asyncio.run(post())


def by_requests(url: str) -> None:
    import requests

    requests.post(url, json={}, timeout=SHORT).raise_for_status()


def by_urllib3(url: str) -> None:
    import urllib3

    with urllib3.PoolManager() as pool:
        pool.request("POST", url, body=b"{}", timeout=SHORT)


def by_aiohttp(url: str) -> None:
    import aiohttp

    async def post() -> None:
        timeout = aiohttp.ClientTimeout(sock_connect=SHORT, sock_read=SHORT)
        session = aiohttp.ClientSession(timeout=timeout)
        async with session as client, client.post(url, json={}) as answer:
            answer.raise_for_status()

    asyncio.run(post())


def by_urllib(url: str) -> None:
    try:
        urllib.request.urlopen(urllib.request.Request(url, b"{}"), timeout=SHORT)
    except urllib.error.HTTPError as answer:
        answer.close()
        raise


def by_stripe(url: str) -> None:
    import stripe

    http = stripe.RequestsClient(timeout=SHORT)
    try:
        client = stripe.StripeClient(
            "sk_test_x", base_addresses={"api": url}, max_network_retries=0, http_client=http
        )
        client.v1.customers.create({"name": "Ada"})
    finally:
        http.close()


CLIENTS = [
    by_httpx,
    by_httpx_async,
    by_requests,
    by_urllib3,
    by_aiohttp,
    by_urllib,
    by_stripe,
]
#: urllib3 raises nothing for a status, and stripe follows no redirects.
RAISING = [post for post in CLIENTS if post is not by_urllib3]
FOLLOWING = [post for post in CLIENTS if post is not by_stripe]


def each(posts: Sequence[Post]) -> pytest.MarkDecorator:
    """Repeat a test with each of these clients."""
    return pytest.mark.parametrize("post", posts, ids=lambda post: post.__name__)


def meant(call: Callable[[], object]) -> Meaning:
    """Tell what an effect takes the error of a call for."""
    with pytest.raises(Exception) as caught:
        call()
    return meaning(caught.value) or UNKNOWN


@each(CLIENTS)
def test_a_connection_that_is_refused_was_not_sent(post: Post) -> None:
    """E13"""
    assert meant(lambda: post(f"http://127.0.0.1:{closed_port()}/200")) is NOT_SENT


@each(CLIENTS)
def test_a_name_that_does_not_resolve_was_not_sent(post: Post) -> None:
    """E13"""
    assert meant(lambda: post("http://nobody.invalid/200")) is NOT_SENT


@each(CLIENTS)
def test_a_connection_that_is_never_made_was_not_sent(post: Post) -> None:
    """E13: of two timeouts, the one before the first byte."""
    with full_port() as port:
        assert meant(lambda: post(f"http://127.0.0.1:{port}/200")) is NOT_SENT


@each(CLIENTS)
@pytest.mark.parametrize("how", ["reset-after", "silent"])
def test_what_was_heard_and_not_answered_is_unknown(rogue: Rogue, post: Post, how: str) -> None:
    """E11, E13"""
    before = len(rogue.heard)

    assert meant(lambda: post(f"{rogue.url}/{how}")) is UNKNOWN
    assert rogue.heard[before:]


@each(CLIENTS)
def test_a_reset_before_the_first_read_is_unknown(resetting: Rogue, post: Post) -> None:
    """E13: the client can't tell it from a reset after the deed."""
    assert meant(lambda: post(f"{resetting.url}/200")) is UNKNOWN


ANSWERS = [(400, FINAL), (422, FINAL), (401, REFUSED), (409, REFUSED), (429, REFUSED)]
NO_ANSWERS = [(408, UNKNOWN), (500, UNKNOWN), (503, UNKNOWN)]


@each(RAISING)
@pytest.mark.parametrize(("status", "said"), [*ANSWERS, *NO_ANSWERS])
def test_a_status_says_what_it_says(rogue: Rogue, post: Post, status: int, said: Meaning) -> None:
    """E13: a server's own failure is no answer to whether it happened."""
    if post is by_stripe and status in (409, 429):
        said = UNKNOWN  # a try before may be under way, for all that its error tells

    assert meant(lambda: post(f"{rogue.url}/{status}")) is said


@each(FOLLOWING)
def test_an_error_after_a_redirect_is_unknown(rogue: Rogue, post: Post) -> None:
    """E13: the first request was answered by "see there", which may come after the deed."""
    assert meant(lambda: post(f"{rogue.url}/moved")) is UNKNOWN


@each([post for post in FOLLOWING if post in RAISING])
def test_a_status_after_a_redirect_is_unknown(rogue: Rogue, post: Post) -> None:
    assert meant(lambda: post(f"{rogue.url}/moved-to-404")) is UNKNOWN
