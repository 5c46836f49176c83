"""Inside the stacks that people have: what frameworks wrap around a handler changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import flask
import httpx
import pytest
from fastapi import BackgroundTasks, FastAPI, Request
from fastapi.responses import FileResponse, StreamingResponse
from starlette.middleware.base import BaseHTTPMiddleware

from integrations.endpoints import Endpoint, Shop, by_account
from onejob import App, UnsupportedByStore
from onejob.integrations.idempotency import ASGIIdempotency, WSGIIdempotency

HEADERS = {"X-Account": "ada"}


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def asked(web: Any, path: str) -> list[httpx.Response]:
    """Send one request twice, under a key of its path's name."""
    headers = HEADERS | {"Idempotency-Key": path[1:]}

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=web, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            return [await client.post(path, headers=headers) for _ in range(2)]

    return asyncio.run(ask())


@pytest.mark.parametrize("place", ["inside", "around"])
def test_a_starlette_stack_carries_a_request_out_once(app: App, place: str, tmp_path: Any) -> None:
    """E23: with a middleware that reads and passes on, streams, files and background tasks."""
    calls: list[str] = []
    web = FastAPI()

    async def timed(request: Request, call_next: Callable[..., Any]) -> Any:
        response = await call_next(request)
        response.headers["X-Timed"] = "1"
        return response

    web.add_middleware(BaseHTTPMiddleware, dispatch=timed)
    if place == "inside":
        web.add_middleware(ASGIIdempotency, app, caller=by_account)

    @web.post("/stream")
    async def stream(request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"a"
            calls.append(f"stream {await request.is_disconnected()}")
            yield b"b"

        return StreamingResponse(parts(), media_type="text/plain")

    @web.post("/file")
    def file() -> FileResponse:
        calls.append("file")
        (tmp_path / "invoice").write_text("ab")
        return FileResponse(tmp_path / "invoice")

    @web.post("/later")
    def later(tasks: BackgroundTasks) -> str:
        calls.append("later")
        tasks.add_task(calls.append, "in the background")
        return "ab"

    @web.post("/fail")
    def fail() -> None:
        calls.append("fail")
        raise ConnectionError("gone")

    served = web if place == "inside" else ASGIIdempotency(web, app, caller=by_account)
    for path, text in (("/stream", "ab"), ("/file", "ab"), ("/later", '"ab"')):
        first, again = asked(served, path)
        assert (first.status_code, first.text, again.text) == (200, text, text)
        assert again.headers["x-timed"] == "1"
        assert again.headers["idempotent-replayed"] == "true"
    first, again = asked(served, "/fail")

    assert (first.status_code, again.status_code) == (500, 409)
    assert again.json()["code"] == "outcome_unknown"
    assert calls == ["stream False", "file", "later", "in the background", "fail"]


def test_a_flask_stack_carries_a_request_out_once(app: App, tmp_path: Any) -> None:
    calls: list[str] = []
    web = flask.Flask("shop")
    (tmp_path / "invoice").write_text("ab")

    @web.post("/file")
    def file() -> flask.Response:
        calls.append("file")
        return flask.send_file(tmp_path / "invoice", mimetype="text/plain")

    @web.post("/fail")
    def fail() -> str:
        calls.append("fail")
        raise ConnectionError("gone")

    web.wsgi_app = WSGIIdempotency(web.wsgi_app, app, caller=by_account)  # type: ignore[method-assign]
    client = web.test_client()
    told = [
        client.post(f"/{path}", headers=HEADERS | {"Idempotency-Key": path})
        for path in ("file", "file", "fail", "fail")
    ]

    assert [(answer.status_code, answer.text[:2]) for answer in told[:2]] == [(200, "ab")] * 2
    assert told[0].headers["Content-Disposition"] == told[1].headers["Content-Disposition"]
    assert [answer.status_code for answer in told[2:]] == [500, 409]
    assert calls == ["file", "fail"]


@pytest.mark.parametrize("store", ["redis", "mariadb"])
def test_a_store_that_keeps_no_inbox_says_so_and_nothing_is_done(
    store: str, request: pytest.FixtureRequest
) -> None:
    url, schema = (request.getfixturevalue(f"{store}_{name}") for name in ("url", "schema"))
    app, shop = App(url, schema=schema), Shop()
    app.store.init()  # type: ignore[attr-defined]

    for kind in ("asgi", "wsgi"):
        with pytest.raises(UnsupportedByStore):
            Endpoint(kind, app, shop).ask("k-1")

    app.close()
    assert shop.orders == []
