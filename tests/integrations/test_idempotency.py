"""A request that is sent again is answered, and not carried out again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from integrations.endpoints import Endpoint, Got, Said, Shop, by_account, wsgi
from onejob import App, UsageError
from onejob.integrations.idempotency import ASGIIdempotency, WSGIIdempotency, by_authorization

KINDS = ("asgi", "wsgi")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def apps(request: pytest.FixtureRequest) -> Iterator[tuple[App, App]]:
    """Two Apps with connections of their own, on each store that keeps an inbox."""
    if request.param == "memory":
        one = other = App("memory://")
    elif request.param == "sqlite":
        url = request.getfixturevalue("sqlite_url")
        one, other = App(url), App(url)
    else:
        url, schema = (request.getfixturevalue(name) for name in ("postgres_url", "schema"))
        one, other = App(url, schema=schema), App(url, schema=schema)
    if request.param != "memory":
        one.store.init()  # type: ignore[attr-defined]
    yield one, other
    one.close()
    other.close()


@pytest.fixture
def app(apps: tuple[App, App]) -> App:
    return apps[0]


@pytest.fixture
def here() -> Iterator[App]:
    """An App in memory: for what does not depend on the store."""
    app = App("memory://")
    yield app
    app.close()


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=KINDS)
def behind(request: pytest.FixtureRequest) -> Callable[..., Endpoint]:
    """Put a service behind the middleware of each kind in turn."""
    return lambda *given, **options: Endpoint(request.param, *given, **options)


def code(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == answer.status_code
    assert "." in told["detail"]
    return answer.status_code, told["code"]


def test_a_repeat_gets_the_first_answer_and_nothing_is_done(
    apps: tuple[App, App], shop: Shop, behind: Any
) -> None:
    """B10, E05, E12"""
    first = behind(apps[0], shop).ask('"k-1"')
    again = behind(apps[1], shop).ask("k-1")

    assert (first.status_code, again.status_code) == (201, 201)
    assert (first.text, again.text) == ("order 1", "order 1")
    assert again.headers["location"] == "/orders/1"
    assert again.headers["content-length"] == "7"
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (
        None,
        "true",
    )
    assert [order.body for order in shop.orders] == [b"tea"]


def test_of_two_that_come_at_once_one_runs_and_the_other_is_told(
    apps: tuple[App, App], shop: Shop, behind: Any
) -> None:
    """E05, E22, E23"""
    endpoint, elsewhere = (behind(app, shop) for app in apps)
    shop.going_on.clear()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(endpoint.ask, "k-1")
        assert shop.begun.wait(10)
        beside = elsewhere.ask("k-1")
        shop.going_on.set()
        ended = first.result()
    later = elsewhere.ask("k-1")

    assert code(beside) == (409, "in_progress")
    assert beside.headers["retry-after"] == "1"
    assert beside.json()["age_seconds"] >= 0
    assert (ended.text, later.text, len(shop.orders)) == ("order 1", "order 1", 1)


def test_of_many_that_come_at_once_one_runs(app: App, shop: Shop, behind: Any) -> None:
    """E22"""
    endpoint = behind(app, shop)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(endpoint.ask, ["k-1"] * 16))

    assert {answer.status_code for answer in answers} <= {201, 409}
    assert {answer.text for answer in answers if answer.status_code == 201} == {"order 1"}
    assert len(shop.orders) == 1


def test_another_payload_under_the_same_key_is_refused(app: App, shop: Shop, behind: Any) -> None:
    """E15: nothing is carried out, and the first one's answer is not told."""
    endpoint = behind(app, shop)
    endpoint.ask("k-1", b"tea")

    other = endpoint.ask("k-1", b"coffee")

    assert code(other) == (422, "key_reused")
    assert "order 1" not in other.text
    assert len(shop.orders) == 1


def test_another_payload_is_told_so_before_it_is_told_to_wait(
    here: App, shop: Shop, behind: Any
) -> None:
    """E16"""
    endpoint = behind(here, shop)
    shop.going_on.clear()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(endpoint.ask, "k-1", b"tea")
        assert shop.begun.wait(10)
        other = endpoint.ask("k-1", b"coffee")
        shop.going_on.set()
        first.result()

    assert code(other) == (422, "key_reused")


def test_a_key_belongs_to_one_path_method_and_query(here: App, shop: Shop, behind: Any) -> None:
    """E15"""
    endpoint = behind(here, shop)
    endpoint.ask("k-1")

    answers = [
        endpoint.ask("k-1", path="/refunds"),
        endpoint.ask("k-1", method="PATCH"),
        endpoint.ask("k-1", path="/orders?dry=1"),
    ]

    assert [code(answer) for answer in answers] == [(422, "key_reused")] * 3


def test_json_in_another_order_is_the_same_request(here: App, shop: Shop, behind: Any) -> None:
    """E17"""
    endpoint = behind(here, shop)
    kind = {"Content-Type": "application/json"}
    endpoint.ask("k-1", b'{"a": 1, "b": 2}', headers=kind)

    assert endpoint.ask("k-1", b'{"b":2,"a":1}', headers=kind).text == "order 1"


def test_what_has_to_be_the_same_can_be_said(here: App, shop: Shop, behind: Any) -> None:
    endpoint = behind(here, shop, fingerprint=lambda request, body: body[:1])
    endpoint.ask("k-1", b"a at 09:00")

    assert endpoint.ask("k-1", b"a at 09:01").text == "order 1"
    assert code(endpoint.ask("k-1", b"b at 09:01")) == (422, "key_reused")


def test_callers_never_see_each_others_answers(app: App, shop: Shop, behind: Any) -> None:
    """The same key of two callers names two pieces of work."""
    endpoint = behind(app, shop)

    mine, yours = endpoint.ask("k-1", account="ada"), endpoint.ask("k-1", account="bob")
    again = endpoint.ask("k-1", account="ada")

    assert (mine.text, yours.text, again.text) == ("order 1", "order 2", "order 1")


def test_a_caller_is_known_by_its_credentials(here: App, shop: Shop, behind: Any) -> None:
    endpoint = behind(here, shop, caller=by_authorization)

    def asked(credentials: str) -> str:
        return endpoint.ask("k-1", headers={"Authorization": credentials}).text

    assert [asked("Bearer a"), asked("Bearer b"), asked("Bearer a")] == [
        "order 1",
        "order 2",
        "order 1",
    ]
    assert code(endpoint.ask("k-1")) == (403, "caller_unknown")


def test_a_caller_may_be_asked_for_in_the_loop(here: App, shop: Shop) -> None:
    async def looked_up(request: Any) -> str | None:
        return by_account(request)

    assert Endpoint("asgi", here, shop, caller=looked_up).ask("k-1").text == "order 1"
    with pytest.raises(UsageError, match="async"):
        WSGIIdempotency(wsgi(shop), here, caller=looked_up)


def test_cookies_are_given_to_the_first_and_never_again(app: App, shop: Shop, behind: Any) -> None:
    endpoint = behind(app, shop)

    first, again = endpoint.ask("k-1"), endpoint.ask("k-1")

    assert first.headers["set-cookie"] == "session=1"
    assert "set-cookie" not in again.headers
    [kept] = [again.headers.get("location")]
    assert kept == "/orders/1"


@pytest.mark.parametrize("key", [None, "", " ", '"a', "a, b", "x" * 256])
def test_what_is_wrong_with_a_request_is_told_before_any_io(
    key: Any, shop: Shop, behind: Any
) -> None:
    """E14: a store that cannot be reached is not asked."""
    endpoint = behind(App("sqlite:////nowhere/onejob.db"), shop, body_bytes=10)

    answer = endpoint.ask(key)

    assert code(answer) == (400, "key_missing" if key is None else "key_malformed")
    assert code(endpoint.ask("k", account=None)) == (403, "caller_unknown")
    assert code(endpoint.ask("k", account=" ")) == (403, "caller_unknown")
    assert code(endpoint.ask("k", b"x" * 11)) == (413, "body_too_large")
    assert shop.orders == []


def test_a_key_that_came_twice_is_none(here: App, shop: Shop) -> None:
    middleware = Endpoint("asgi", here, shop).middleware
    transport = httpx.ASGITransport(app=middleware)

    async def asked() -> httpx.Response:
        headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b"), ("X-Account", "ada")]
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.post("http://shop/orders", headers=headers)

    assert code(asyncio.run(asked())) == (400, "key_malformed")


def test_what_cannot_be_checked_is_not_carried_out(shop: Shop, behind: Any) -> None:
    answer = behind(App("sqlite:////nowhere/onejob.db"), shop).ask("k-1")

    assert code(answer) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "1"
    assert shop.orders == []


def test_only_chosen_methods_and_paths_need_a_key(here: App, shop: Shop, behind: Any) -> None:
    endpoint = behind(here, shop, paths=["/orders", "/refunds/"])

    free = [
        endpoint.ask(None, method="GET"),
        endpoint.ask(None, method="PUT"),
        endpoint.ask(None, path="/ordersx"),
        endpoint.ask("not looked at, ever", path="/else"),
    ]
    needing = [endpoint.ask(None, path=path) for path in ("/orders", "/orders/7", "/refunds/1")]

    assert [answer.status_code for answer in free] == [201] * 4
    assert [order.claim for order in shop.orders] == [None] * 4
    assert [code(answer) for answer in needing] == [(400, "key_missing")] * 3
    by_function = behind(here, shop, paths=lambda path: path.endswith("/pay"))
    assert by_function.ask(None, path="/a/pay").status_code == 400
    assert by_function.ask(None, path="/a").status_code == 201


def test_a_key_may_be_left_to_the_client(here: App, shop: Shop, behind: Any) -> None:
    endpoint = behind(here, shop, required=False)

    answers = [endpoint.ask(None).text, endpoint.ask(None).text]

    assert answers == ["order 1", "order 2"]
    assert (endpoint.ask("k").text, endpoint.ask("k").text) == ("order 3", "order 3")


def test_the_service_is_told_under_which_claim_it_works(here: App, shop: Shop, behind: Any) -> None:
    endpoint = behind(here, shop)
    endpoint.ask('"k 1"')

    claim = shop.orders[0].claim

    assert claim is not None
    assert (claim.key, claim.token > 0) == ("k 1", True)
    assert claim.id == endpoint.middleware.id_of("ada", "k 1")
    assert "ada" not in claim.id


@pytest.mark.parametrize(
    "options",
    [
        {"caller": None},
        {"caller": "ada"},
        {"if_unknown": "wait"},
        {"on_failure": "retry"},
        {"methods": "POST"},
        {"paths": ["orders"]},
        {"paths": []},
        {"claim_for": 0},
        {"keep": "soon"},
        {"body_bytes": 0},
        {"response_bytes": 2_000_000},
        {"never_replayed": "X-Token"},
        {"name": "a/b"},
    ],
    ids=str,
)
@pytest.mark.parametrize("middleware", [ASGIIdempotency, WSGIIdempotency])
def test_options_that_cannot_be_right_are_refused_at_once(
    middleware: Any, options: dict[str, Any], here: App
) -> None:
    with pytest.raises(UsageError):
        middleware(wsgi(Shop()), here, **{"caller": by_account, **options})


def test_a_refusal_of_the_moment_leaves_the_key_free(here: App, behind: Any) -> None:
    """The service did nothing, and may do it another time; a final refusal is its answer."""
    statuses = iter([429, 401, 409, 422, 201])
    endpoint = behind(here, lambda got: Said(next(statuses), parts=(b"told",)))

    answers = [endpoint.ask("k-1").status_code for _ in range(5)]

    assert answers == [429, 401, 409, 422, 422]


def failing(calls: list[Got]) -> Callable[[Got], Said]:
    """Fail at the first call: by its status, or where the path says so by an exception."""

    def handler(got: Got) -> Said:
        calls.append(got)
        if len(calls) > 1:
            return Said(201, parts=(b"done",))
        if got.path == "/raise":
            raise ConnectionError("the provider is gone")
        return Said(503, parts=(b"sorry",))

    return handler


@pytest.mark.parametrize("path", ["/answer", "/raise"])
@pytest.mark.parametrize(
    ("options", "told", "calls_made"),
    [
        ({}, (409, "outcome_unknown"), 1),
        ({"if_unknown": "repeat"}, 201, 2),
        ({"on_failure": "release"}, 201, 2),
    ],
    ids=["refuse", "repeat", "release"],
)
def test_a_failure_is_unknown_unless_it_is_said_what_it_means(
    here: App, behind: Any, path: str, options: Any, told: Any, calls_made: int
) -> None:
    """E11, E13, E18"""
    calls: list[Got] = []
    endpoint = behind(here, failing(calls), **options)

    if path == "/raise":
        with pytest.raises(ConnectionError):
            endpoint.ask("k-1", path=path)
    else:
        assert endpoint.ask("k-1", path=path).text == "sorry"
    again = endpoint.ask("k-1", path=path)

    assert told == (again.status_code if again.status_code == 201 else code(again))
    assert len(calls) == calls_made


def test_a_failure_can_be_the_answer(here: App, behind: Any) -> None:
    endpoint = behind(here, failing([]), on_failure="keep")

    assert [endpoint.ask("k-1").status_code for _ in range(2)] == [503, 503]


def test_a_person_settles_what_is_unknown(app: App, behind: Any) -> None:
    calls: list[Got] = []
    endpoint = behind(app, failing(calls))
    for key in ("k-1", "k-2"):
        calls.clear()
        endpoint.ask(key)

    inbox, id_of = app.inbox("http"), endpoint.middleware.id_of
    assert {found.id for found in inbox.unknown()} == {id_of("ada", "k-1"), id_of("ada", "k-2")}
    inbox.resolve(id_of("ada", "k-1"), "redo")
    inbox.resolve(id_of("ada", "k-2"), "done")

    assert endpoint.ask("k-1").text == "done"
    assert code(endpoint.ask("k-2")) == (409, "response_not_kept")
