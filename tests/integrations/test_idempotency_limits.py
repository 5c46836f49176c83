"""What is too large to compare or to keep, and answers that come in pieces."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integrations.endpoints import Endpoint, Got, Said, Shop, asgi, by_account
from onejob import App, StoreUnavailable
from onejob.integrations.idempotency import ASGIIdempotency, WSGIIdempotency, claim_of


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


@pytest.fixture(params=["asgi", "wsgi"])
def behind(request: pytest.FixtureRequest) -> Callable[..., Endpoint]:
    return lambda *given, **options: Endpoint(request.param, *given, **options)


def test_a_body_that_is_too_large_is_refused_and_leaves_no_trace(app: App, behind: Any) -> None:
    shop = Shop()
    endpoint = behind(app, shop, body_bytes=5)

    refused = endpoint.ask("k-1", b"123456")

    assert (refused.status_code, refused.json()["limit_bytes"]) == (413, 5)
    assert endpoint.ask("k-1", b"12345").text == "order 1"


def test_a_body_without_a_length_is_read_up_to_the_limit(app: App, behind: Any) -> None:
    endpoint = behind(app, Shop(), body_bytes=5)

    async def pieces() -> Any:
        for piece in (b"12", b"345", b"67"):
            yield piece

    if isinstance(endpoint.middleware, ASGIIdempotency):
        assert endpoint.ask("k-1", pieces()).status_code == 413
    else:
        environ = wsgi_environ(b"1234567") | {"wsgi.input_terminated": True}
        assert told(endpoint.middleware, environ)[0] == "413 Request Entity Too Large"


def wsgi_environ(body: bytes) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/orders",
        "HTTP_IDEMPOTENCY_KEY": "k-1",
        "HTTP_X_ACCOUNT": "ada",
        "wsgi.input": io.BytesIO(body),
    }


def told(middleware: Any, environ: dict[str, Any]) -> tuple[str, bytes]:
    said: list[str] = []
    parts = middleware(environ, lambda status, headers, exc_info=None: said.append(status))
    return said[0], b"".join(parts)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"CONTENT_LENGTH": "4"}, "400 Bad Request"),
        ({"CONTENT_LENGTH": "three"}, "400 Bad Request"),
        ({"CONTENT_LENGTH": "-1"}, "400 Bad Request"),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, "411 Length Required"),
        ({"CONTENT_LENGTH": "9" * 30}, "413 Request Entity Too Large"),
        ({"CONTENT_LENGTH": "3"}, "201 Told"),
        ({"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}, "201 Told"),
    ],
    ids=str,
)
def test_a_body_is_read_whole_or_not_at_all(app: App, more: Any, status: str) -> None:
    shop = Shop()
    middleware = Endpoint("wsgi", app, shop).middleware

    assert told(middleware, wsgi_environ(b"tea") | more)[0] == status
    assert [order.body for order in shop.orders] == ([b"tea"] if status == "201 Told" else [])


def test_a_client_that_leaves_before_its_body_ends_has_asked_for_nothing(app: App) -> None:
    shop, sent = Shop(), []
    messages = iter(
        [
            {"type": "http.request", "body": b"te", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    asyncio.run(served(Endpoint("asgi", app, shop).middleware, messages, sent))

    assert (shop.orders, sent) == ([], [])


async def served(middleware: Any, messages: Iterator[Any], sent: list[Any]) -> None:
    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    await middleware(scope(), receive, send)


def scope(**more: Any) -> dict[str, Any]:
    headers = [(b"idempotency-key", b"k-1"), (b"x-account", b"ada")]
    return {"type": "http", "method": "POST", "path": "/orders", "headers": headers, **more}


def test_an_answer_that_is_too_large_is_given_once_and_not_kept_in_part(
    app: App, behind: Any
) -> None:
    """The first gets all of it; a repeat is told that the work was done."""
    calls: list[Got] = []

    def large(got: Got) -> Said:
        calls.append(got)
        return Said(201, [("Content-Type", "text/plain")], (b"12345", b"67", b"8"))

    endpoint = behind(app, large, response_bytes=6)

    first, again = endpoint.ask("k-1"), endpoint.ask("k-1")

    assert (first.status_code, first.text) == (201, "12345678")
    assert (again.status_code, again.json()["code"]) == (409, "response_not_kept")
    assert again.json()["answered"] == 201
    assert len(calls) == 1


def test_an_answer_that_comes_in_pieces_is_kept_whole(app: App, behind: Any) -> None:
    endpoint = behind(app, lambda got: Said(200, parts=(b"a", b"b", b"", b"c")))

    assert [endpoint.ask("k-1").text for _ in range(2)] == ["abc", "abc"]


def test_an_answer_is_recorded_before_the_first_byte_of_it_is_sent(app: App) -> None:
    states: list[str] = []
    middleware = Endpoint("asgi", app, Shop()).middleware

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        with app.inbox("http").receive(middleware.id_of("ada", "k-1")) as received:
            states.append(received.state)

    asyncio.run(middleware(scope(), receive, send))

    assert states == ["done", "done"]


def test_a_stream_of_events_is_passed_on_as_it_comes(app: App, behind: Any) -> None:
    """And what is known of it meanwhile: it is in progress; at its end: done, and not kept."""
    seen: list[int] = []

    def parts() -> Iterator[bytes]:
        yield b"data: 1\n\n"
        seen.append(endpoint.ask("k-1").status_code)
        yield b"data: 2\n\n"

    def events(got: Got) -> Said:
        return Said(200, [("Content-Type", "text/event-stream")], parts())

    endpoint = behind(app, events)
    if isinstance(endpoint.middleware, ASGIIdempotency):
        endpoint.ask = lambda key, ask=endpoint.ask: in_a_thread(ask, key)  # type: ignore[method-assign]

    first = endpoint.ask("k-1")

    assert first.text == "data: 1\n\ndata: 2\n\n"
    assert seen == [409]
    assert endpoint.ask("k-1").json()["code"] == "response_not_kept"


def in_a_thread(ask: Callable[[str], Any], key: str) -> Any:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ask, key).result()


def test_a_stream_that_is_cut_off_is_unknown(app: App, behind: Any) -> None:
    def parts() -> Iterator[bytes]:
        yield b"data: 1\n\n"
        yield b"data: 2\n\n"
        raise ConnectionError("gone")

    def events(got: Got) -> Said:
        return Said(200, [("Content-Type", "text/event-stream")], parts())

    endpoint = behind(app, events)

    with pytest.raises(ConnectionError):
        endpoint.ask("k-1")

    assert endpoint.ask("k-1").json()["code"] == "outcome_unknown"


def test_a_wsgi_stream_that_is_not_read_to_its_end_is_unknown(app: App) -> None:
    closed: list[bool] = []

    class Parts:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"1", b"2", b"3"])

        def close(self) -> None:
            closed.append(True)

    endpoint = Endpoint("wsgi", app, lambda got: Said(200, parts=Parts()), response_bytes=1)

    given: Any = endpoint.middleware(wsgi_environ(b""), lambda *told: None)
    next(given)
    given.close()

    assert closed == [True]
    assert endpoint.ask("k-1", b"").json()["code"] == "outcome_unknown"


def test_an_event_is_passed_on_before_the_next_one_is_made(app: App) -> None:
    made: list[int] = []

    def parts() -> Iterator[bytes]:
        for number in (1, 2, 3):
            made.append(number)
            yield b"data: %d\n\n" % number

    def events(got: Got) -> Said:
        return Said(200, [("Content-Type", "text/event-stream")], parts())

    given: Any = Endpoint("wsgi", app, events).middleware(wsgi_environ(b""), lambda *told: None)

    assert (next(given), made) == (b"data: 1\n\n", [1])
    assert (next(given), made) == (b"data: 2\n\n", [1, 2])
    given.close()


def test_a_service_whose_client_has_left_goes_on_to_its_answer(app: App) -> None:
    """E11: it could be in the middle of a payment."""
    heard: list[str] = []

    async def service(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        leaving = asyncio.create_task(receive())
        await asyncio.sleep(0)
        heard.append("left" if leaving.done() else "here")
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"paid"})
        heard.append((await leaving)["type"])

    middleware = ASGIIdempotency(service, app, caller=by_account)
    messages = iter(
        [{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}]
    )
    sent: list[Any] = []

    asyncio.run(served(middleware, messages, sent))

    assert heard == ["here", "http.disconnect"]
    assert sent[1]["body"] == b"paid"


def test_a_service_cannot_answer_past_what_is_held_back(app: App) -> None:
    """Files that a server is handed by name would be sent before anything is recorded."""
    seen: dict[str, Any] = {}

    async def service(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)
        await asgi(Shop())(scope, receive, send)

    def plain(environ: Any, start_response: Any) -> list[bytes]:
        seen.update(environ)
        start_response("200 OK", [])
        return []

    around = {"http.response.pathsend": {}, "http.response.trailers": {}, "tls": {}}
    message = {"type": "http.request", "body": b"", "more_body": False}
    middleware = ASGIIdempotency(service, app, caller=by_account)

    async def asked() -> None:
        async def receive() -> Any:
            return message

        async def send(message: Any) -> None: ...

        await middleware(scope(extensions=around), receive, send)

    asyncio.run(asked())
    assert seen["extensions"] == {"tls": {}}
    environ = wsgi_environ(b"") | {"wsgi.file_wrapper": io.BytesIO, "HTTP_IDEMPOTENCY_KEY": "k-2"}
    WSGIIdempotency(plain, app, caller=by_account)(environ, lambda *told: None)
    assert "wsgi.file_wrapper" not in seen
    assert claim_of(seen) is not None


def test_what_is_written_and_what_starts_anew_is_kept_as_it_ended(app: App) -> None:
    """WSGI's older ways to answer: ``write``, and ``start_response`` again after an error."""

    def service(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        try:
            raise ValueError("late")
        except ValueError as error:
            write = start_response("202 Accepted", [], (ValueError, error, error.__traceback__))
        write(b"written ")
        return [b"returned"]

    middleware = WSGIIdempotency(service, app, caller=by_account)

    assert [told(middleware, wsgi_environ(b"")) for _ in range(2)] == [
        ("202 Accepted", b"written returned")
    ] * 2


def test_other_kinds_of_scope_are_passed_on(app: App) -> None:
    seen: list[str] = []

    async def service(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    middleware = ASGIIdempotency(service, app, caller=by_account)
    for kind in ("lifespan", "websocket"):
        asyncio.run(middleware({"type": kind}, None, None))  # type: ignore[arg-type]

    assert seen == ["lifespan", "websocket"]


def test_a_loop_is_not_held_up_by_its_store(app: App) -> None:
    """The claim and the record wait in threads: the loop turns meanwhile."""
    middleware = Endpoint("asgi", app, Shop()).middleware
    threads: set[str] = set()
    store: Any = app.store
    run = store.run

    def watched(*given: Any) -> Any:
        import threading

        threads.add(threading.current_thread().name)
        return run(*given)

    store.run = watched
    message = {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(served(middleware, iter([message, message]), []))

    assert {name.rpartition("_")[0] for name in threads} == {"onejob-store"}


def test_an_answer_that_cannot_be_recorded_is_told_all_the_same(app: App, behind: Any) -> None:
    """It is true. A repeat is refused: its key stays claimed, then unknown, and nothing doubles."""
    endpoint = behind(app, shop := Shop())
    store: Any = app.store
    run = store.run

    def away(command: Any, *given: Any) -> Any:
        if command.name == "inbox_record":
            raise StoreUnavailable("here", "it is away")
        return run(command, *given)

    store.run = away
    first = endpoint.ask("k-1")
    store.run = run

    assert (first.status_code, first.text) == (201, "order 1")
    assert endpoint.ask("k-1").json()["code"] == "in_progress"
    assert len(shop.orders) == 1
