"""A service behind a fence: what carries an older token is refused, over real requests."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest

from onejob import App, UsageError
from onejob.integrations.fencing import HEADER, ASGIFence, WSGIFence


@pytest.fixture
def app(sqlite_url: str) -> Iterator[App]:
    app = App(sqlite_url)
    app.store.init()  # type: ignore[attr-defined]
    yield app
    app.close()


async def service(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def asked(fence: ASGIFence, token: str | None, path: str = "/export") -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=fence)  # type: ignore[arg-type]
        headers = {} if token is None else {HEADER: token}
        async with httpx.AsyncClient(transport=transport, base_url="http://export") as client:
            return await client.post(path, headers=headers)

    return asyncio.run(ask())


def test_an_older_token_is_refused_once_a_newer_one_has_come(app: App) -> None:
    """C09"""
    fence = ASGIFence(service, app, resource="export")

    answers = [asked(fence, token).status_code for token in ("7", "7", "9", "7", "8", "9", "10")]

    assert answers == [204, 204, 204, 409, 409, 204, 204]
    refused = asked(fence, "7").json()
    assert (refused["code"], refused["current"]) == ("stale_token", 10)


def test_a_lock_that_protects_the_resource_is_known_before_its_holder_has_come(app: App) -> None:
    """C09: the overtaken holder is refused even where it would have been first."""
    fence = ASGIFence(service, app, resource="export")
    with app.lock("export", protects="export") as lease:
        older = lease.token
    with app.lock("export", protects="export") as lease:
        assert asked(fence, str(older)).status_code == 409
        assert asked(fence, str(lease.token)).status_code == 204


def test_each_resource_has_tokens_of_its_own(app: App) -> None:
    fence = ASGIFence(service, app, resource=lambda path: path.strip("/"))

    assert asked(fence, "9", "/one").status_code == 204
    assert asked(fence, "7", "/two").status_code == 204
    assert asked(fence, "7", "/one").status_code == 409


@pytest.mark.parametrize(
    "token", ["", "0", "-1", "1.5", "x", "9" * 20, str(2**63), str(2**53), "1, 2"]
)
def test_what_is_no_token_is_refused_and_nothing_is_remembered(app: App, token: str) -> None:
    fence = ASGIFence(service, app, resource="export")

    assert asked(fence, token).status_code == 400
    assert asked(fence, "1").status_code == 204


def test_a_request_without_a_token_is_refused_unless_told_otherwise(app: App) -> None:
    assert asked(ASGIFence(service, app, resource="x"), None).status_code == 428
    assert asked(ASGIFence(service, app, resource="x", required=False), None).status_code == 204


def test_what_cannot_be_checked_is_not_let_through() -> None:
    app = App("sqlite:////nowhere/onejob.db")

    assert asked(ASGIFence(service, app, resource="export"), "1").status_code == 503


@pytest.mark.parametrize("resource", ["", " x", None])
def test_a_resource_that_is_no_name_is_refused_at_once(app: App, resource: Any) -> None:
    with pytest.raises(UsageError):
        WSGIFence(lambda environ, start: [], app, resource=resource)


def test_a_wsgi_service_is_fenced_the_same_way(app: App) -> None:
    def hello(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"done"]

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    fence = WSGIFence(hello, app, resource="export")
    server = make_server("127.0.0.1", 0, fence, handler_class=Quiet)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/export"
        answers = [httpx.post(url, headers={HEADER: token}) for token in ("7", "9", "8")]
        bare = httpx.post(url)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

    assert [answer.status_code for answer in answers] == [200, 200, 409]
    assert answers[2].json()["current"] == 9
    assert bare.status_code == 428


@pytest.fixture(params=["redis", "mariadb"])
def clocked(request: pytest.FixtureRequest) -> Iterator[App]:
    """An App on a store whose tokens follow its clock."""
    url = request.getfixturevalue(f"{request.param}_url")
    app = App(url, schema=request.getfixturevalue(f"{request.param}_schema"))
    app.store.init()  # type: ignore[attr-defined]
    yield app
    app.close()


def test_a_token_that_nobody_was_given_shuts_no_resource(clocked: App) -> None:
    """C09: it would refuse every holder to come; a request with a mistyped number is enough."""
    fence = ASGIFence(service, clocked, resource="export")
    lock = clocked.lock("export", protects="export")

    for far in (time.time_ns() // 1_000 + 2 * 86_400 * 10**6, 2**53 - 1, 2**53, 2**63 - 1):
        assert asked(fence, str(far)).status_code == 400
    with lock as lease:
        assert asked(fence, str(lease.token)).status_code == 204
    for far in (2**53 - 1, 2**63 - 1):
        assert asked(fence, str(far)).status_code == 400
    with lock as later:
        assert later.token > lease.token
        assert asked(fence, str(later.token)).status_code == 204
        assert asked(fence, str(lease.token)).status_code == 409


def asked_by_wsgi(fence: WSGIFence, token: int, path: str, *, mounted: str = "") -> str:
    """Return the status of a request, sent as a WSGI server does: bytes, one in each character."""
    answers: list[str] = []
    environ = {
        "SCRIPT_NAME": mounted,
        "PATH_INFO": path.encode("utf-8", "surrogateescape").decode("latin-1"),
        "HTTP_FENCING_TOKEN": str(token),
    }
    fence(environ, lambda status, headers: answers.append(status))
    return answers[0]


def wsgi_service(environ: Any, start_response: Any) -> list[bytes]:
    start_response("204 No Content", [])
    return []


def test_a_path_names_the_same_resource_behind_either_middleware(app: App) -> None:
    """C09: whatever letters it has, and whatever the service is mounted at."""
    fence = WSGIFence(wsgi_service, app, resource=lambda path: f"doc:{path}")
    afence = ASGIFence(service, app, resource=lambda path: f"doc:{path}")
    with app.lock("size", protects="doc:/docs/gr\u00f6\u00dfe") as lease:
        older = lease.token
    with app.lock("size", protects="doc:/docs/gr\u00f6\u00dfe") as lease:
        newer = lease.token

    assert asked(afence, str(older), "/docs/gr\u00f6\u00dfe").status_code == 409
    assert asked_by_wsgi(fence, older, "/docs/gr\u00f6\u00dfe") == "409 Conflict"
    assert asked_by_wsgi(fence, older, "/gr\u00f6\u00dfe", mounted="/docs") == "409 Conflict"
    assert asked_by_wsgi(fence, newer, "/docs/gr\u00f6\u00dfe") == "204 No Content"


@pytest.mark.parametrize("path", ["/a\0b", "/" + "x" * 3_000, "/ends in space ", "/\udcff", ""])
def test_a_path_that_gives_no_name_is_refused(app: App, path: str) -> None:
    """A bad request, and no error of a driver's."""
    fence = WSGIFence(wsgi_service, app, resource=lambda path: path)
    asgi = ASGIFence(service, app, resource=lambda path: path)

    assert asked_by_wsgi(fence, 7, path) == "400 Bad Request"
    [answer, *_] = connected(asgi, "http", 7, path=path)
    assert answer["status"] == 400


def connected(
    fence: ASGIFence, kind: str, token: int | None, *, path: str = "/export", denials: bool = False
) -> list[dict[str, Any]]:
    """Return what an ASGI server is sent for such a connection."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.connect"}

    scope = {
        "type": kind,
        "path": path,
        "headers": [] if token is None else [(b"fencing-token", str(token).encode())],
        "extensions": {"websocket.http.response": {}} if denials else {},
    }
    asyncio.run(fence(scope, receive, send))
    return sent


async def any_service(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "reached"})


def test_a_websocket_is_fenced_when_it_is_opened(app: App) -> None:
    """C09: what is written through it would pass every check otherwise."""
    fence = ASGIFence(any_service, app, resource="export")

    assert connected(fence, "websocket", 9) == [{"type": "reached"}]
    assert connected(fence, "websocket", 8)[0]["type"] == "websocket.close"
    assert connected(fence, "websocket", None)[0]["type"] == "websocket.close"
    start, body = connected(fence, "websocket", 8, denials=True)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 409)
    assert json.loads(body["body"])["current"] == 9


def test_a_lifespan_is_no_request(app: App) -> None:
    fence = ASGIFence(any_service, app, resource="export")

    assert connected(fence, "lifespan", None) == [{"type": "reached"}]
