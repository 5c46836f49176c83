"""``app.once_per``: one of many calls does the work of a period; the others are told so."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import onejob
from onejob import SKIPPED, App, LeaseLost, SchemaMismatch, UsageError
from onejob.commands import claims, views
from onejob.commands.claims import ClaimView, Won
from onejob.core.time import DAY
from onejob.runtime.events import Event

from .conftest import install

YEAR = "0 0 1 1 *"
"""A period that does not end while a test runs."""

Replica = Callable[..., App]


@pytest.fixture(params=["sqlite", "postgresql"])
def replica(request: pytest.FixtureRequest) -> Iterator[Replica]:
    """Make Apps over one store, as each process of a fleet has its own."""
    if request.param == "sqlite":
        url, schema = request.getfixturevalue("sqlite_url"), "onejob"
    else:
        url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("schema")
    made: list[App] = []

    def make() -> App:
        made.append(App(url, schema=schema, name="shop"))
        return made[-1]

    install(make())
    yield make
    for app in made:
        app.close()


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def row(app: App, scope: str = "digest") -> ClaimView:
    """Return the one period that was claimed."""
    [view] = app.store.run(claims.listed(claims.PERIOD, scope=scope))
    return view


def overtake(app: App, scope: str = "digest") -> Won:
    """Take a period over as another process would after a lease, by a clock that is ahead."""
    held, now = row(app, scope), app.store.run(views.clock())
    taken = app.store.run(
        claims.take(
            claims.PERIOD, scope, held.key, owner="other:1/x", lease=DAY, keep=DAY, now=now + DAY
        )
    )
    assert isinstance(taken, Won)
    return taken


def heard(app: App) -> list[Event]:
    events: list[Event] = []
    app.events.listen(events.append)
    return events


def named(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def test_of_many_calls_in_one_period_one_does_the_work(replica: Replica) -> None:
    """A01, A14, D10: a job of no time at all, called again long after it has ended."""
    done: list[int] = []

    def calling(place: int) -> Callable[[], Any]:
        app = replica()

        @app.once_per(YEAR, tz="Europe/Berlin")
        def digest() -> str:
            done.append(place)
            return "sent"

        return digest

    calls = [calling(place) for place in range(3)] * 4
    with ThreadPoolExecutor(len(calls)) as pool:
        results = [future.result() for future in [pool.submit(call) for call in calls]]

    assert sorted(results, key=str) == [SKIPPED] * 11 + ["sent"]
    assert [call() for call in calls[:3]] == [SKIPPED] * 3
    assert len(done) == 1


@in_a_loop
async def test_of_many_calls_in_loops_one_does_the_work(replica: Replica) -> None:
    """A01"""

    def calling() -> Callable[[], Any]:
        app = replica()

        @app.once_per(YEAR)
        async def digest() -> str:
            await asyncio.sleep(0)
            return "sent"

        return digest

    calls = [await asyncio.to_thread(calling) for _ in range(3)] * 4

    results = await asyncio.gather(*[call() for call in calls])

    assert sorted(results, key=str) == [SKIPPED] * 11 + ["sent"]
    assert await calls[0]() is SKIPPED


def test_arguments_and_results_pass_and_methods_are_functions_too(sqlite_app: App) -> None:
    class Shop:
        @sqlite_app.once_per(YEAR, name="stock")
        def count(self, *, of: str) -> str:
            """Count."""
            return of * 2

    assert Shop().count(of="tea") == "teatea"
    assert Shop().count(of="tea") is SKIPPED
    assert Shop.count.__doc__ == "Count."
    assert row(sqlite_app, "stock").state == "done"


def test_skipped_is_one_value_that_is_false(sqlite_app: App) -> None:
    assert SKIPPED is onejob.SKIPPED
    assert not SKIPPED
    assert repr(SKIPPED) == str(SKIPPED) == "onejob.SKIPPED"


def test_a_period_is_kept_after_it_ended_with_who_did_it(replica: Replica) -> None:
    """A06"""
    app, other = replica(), replica()
    app.once_per("day", name="digest")(lambda: None)()
    other.once_per("day", name="digest")(lambda: None)()

    done = row(app)
    [event] = app.store.run(views.events(schedule="digest"))

    assert (done.state, done.attempt, done.error) == ("done", 1, None)
    assert len(done.key) == len("2026-11-29")
    assert done.owner.startswith(f"{app._services().owner}/")
    assert (event.kind, event.key, event.token) == ("period.lost", done.key, done.token)
    assert json.loads(event.detail)["holder"] == done.owner


def test_a_function_that_raises_gives_its_period_back(replica: Replica) -> None:
    app = replica()
    calls = iter([ValueError("no mail server"), None])

    @app.once_per(YEAR)
    def digest() -> int:
        if error := next(calls):
            raise error
        return 7

    with pytest.raises(ValueError, match="no mail server"):
        digest()
    given_back = row(app)

    assert (given_back.state, given_back.error) == ("free", "ValueError: no mail server")
    assert digest() == 7
    assert digest() is SKIPPED
    assert row(app).attempt == 2


def test_a_function_that_raises_keeps_its_period_where_told_to(sqlite_app: App) -> None:
    @sqlite_app.once_per(YEAR, keep_failed=True)
    def digest() -> None:
        raise ValueError("half of it is sent")

    with pytest.raises(ValueError, match="half"):
        digest()

    assert digest() is SKIPPED
    assert (row(sqlite_app).state, row(sqlite_app).error) == (
        "failed",
        "ValueError: half of it is sent",
    )


@pytest.mark.parametrize(("code", "state"), [(0, "done"), (None, "done"), (3, "free")])
def test_a_script_that_exits_has_ended_as_it_says(
    code: int | None, state: str, sqlite_app: App
) -> None:
    @sqlite_app.once_per(YEAR)
    def digest() -> None:
        sys.exit(code)

    with pytest.raises(SystemExit):
        digest()

    assert row(sqlite_app).state == state


def passed_through(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate as many libraries do: what comes back calls, and is not async itself."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


@in_a_loop
async def test_what_a_wrapper_returns_is_awaited_within_the_period(sqlite_app: App) -> None:
    fails = [True]

    @sqlite_app.once_per(YEAR)
    @passed_through
    async def digest() -> str:
        assert row(sqlite_app).state == "claimed"
        if fails:
            raise RuntimeError(fails.pop())
        return "sent"

    with pytest.raises(RuntimeError):
        await digest()
    assert row(sqlite_app).state == "free"
    assert await digest() == "sent"
    assert row(sqlite_app).state == "done"
    assert await digest() is SKIPPED


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator"])
def test_a_body_that_would_run_outside_its_period_is_refused(kind: str, sqlite_app: App) -> None:
    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    made = {"coroutine": coroutine, "generator": generator, "async generator": async_generator}
    digest = sqlite_app.once_per(YEAR, name="digest", keep_failed=True)(passed_through(made[kind]))

    with pytest.raises(UsageError, match=f"returned an? {kind}, .* the async function itself"):
        digest()
    assert row(sqlite_app).state == "free"


@in_a_loop
async def test_objects_with_an_async_call_and_static_methods_are_functions_too(
    sqlite_app: App,
) -> None:
    class Digest:
        async def __call__(self) -> str:
            return row(sqlite_app).state

        @sqlite_app.once_per(YEAR, name="static")
        @staticmethod
        async def static() -> str:
            return row(sqlite_app, "static").state

    assert await sqlite_app.once_per(YEAR, name="digest")(Digest())() == "claimed"
    assert await Digest().static() == "claimed"


@in_a_loop
async def test_a_cancelled_call_gives_its_period_back(sqlite_app: App) -> None:
    began = asyncio.Event()

    @sqlite_app.once_per(YEAR)
    async def digest() -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(digest())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    view = await asyncio.to_thread(row, sqlite_app)
    assert (view.state, view.error) == ("free", "CancelledError")


@in_a_loop
async def test_what_a_cancelled_call_wins_is_given_back(sqlite_app: App) -> None:
    """Nobody is left to do the work: it must not wait for the lease to end."""

    @sqlite_app.once_per(YEAR)
    async def digest() -> str:
        return "sent"

    asked = threading.Event()
    go_on = threading.Event()
    services = await asyncio.to_thread(sqlite_app._services)
    carry_out = services.store.run

    def slowly(command: Any, within: Any = None) -> Any:
        if command.name == "claim_take":
            asked.set()
            assert go_on.wait(10)
        return carry_out(command, within)

    services.store.run = slowly  # type: ignore[method-assign]
    task = asyncio.create_task(digest())
    await asyncio.to_thread(asked.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    services.store.run = carry_out  # type: ignore[method-assign]
    go_on.set()

    for _ in range(200):
        if (await asyncio.to_thread(claimed_states, sqlite_app)) == ["free"]:
            break
        await asyncio.sleep(0.02)
    assert await digest() == "sent"


def claimed_states(app: App) -> list[str]:
    return [view.state for view in app.store.run(claims.listed(claims.PERIOD))]


def test_who_was_overtaken_while_it_worked_is_told(replica: Replica) -> None:
    """B03, C01: the other one has the period, and keeps it."""
    app = replica()

    @app.once_per(YEAR)
    def digest() -> None:
        overtake(app)

    with pytest.raises(LeaseLost, match=r"period '.*' of 'digest' is no longer held"):
        digest()

    assert (row(app).owner, row(app).state) == ("other:1/x", "claimed")
    [event] = app.store.run(views.events(schedule="digest"))
    assert event.kind == "period.abandoned"


def test_who_was_overtaken_and_fails_gives_nothing_back(sqlite_app: App) -> None:
    """C01"""

    @sqlite_app.once_per(YEAR)
    def digest() -> None:
        overtake(sqlite_app)
        raise ValueError("its own error")

    with pytest.raises(ValueError, match="its own error"):
        digest()

    assert (row(sqlite_app).owner, row(sqlite_app).state) == ("other:1/x", "claimed")


@in_a_loop
async def test_an_async_function_is_cancelled_when_its_period_is_lost(replica: Replica) -> None:
    """P6"""
    app = await asyncio.to_thread(replica)
    events = heard(app)

    @app.once_per(YEAR, ttl="1s")
    async def digest() -> None:
        await asyncio.to_thread(overtake, app)
        await asyncio.wait_for(asyncio.Event().wait(), 20)

    with pytest.raises(LeaseLost, match=r"taken over|renewed in time"):
        await digest()

    # Told after the cancellation, by the thread that watches: nobody's listener delays that.
    for _ in range(500):
        if "period.lost" in named(events):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"nobody was told: {named(events)}")


def test_a_period_is_renewed_for_as_long_as_its_work_takes(replica: Replica) -> None:
    """A22: work that outlasts its lease is not started beside itself."""
    app, other = replica(), replica()
    seen: list[Any] = []

    @app.once_per(YEAR, ttl="1s")
    def digest() -> str:
        first = row(app).until
        renewed = threading.Event()
        for _ in range(300):
            if row(app).until > first + 600_000:
                break
            renewed.wait(0.02)
        seen.append(other.once_per(YEAR, name="digest")(lambda: "twice")())
        return "sent"

    assert digest() == "sent"
    assert seen == [SKIPPED]


@pytest.mark.parametrize(("choice", "result"), [("skip", SKIPPED), ("fire", "sent")])
def test_without_its_store_a_call_is_skipped_or_fired_as_told_and_said(
    choice: Any, result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """P7"""
    app = App("postgresql://postgres@127.0.0.1:1/none")
    events = heard(app)

    answer = app.once_per("day", name="digest", on_store_down=choice)(lambda: "sent")()

    assert answer == result
    assert named(events) == ["period.store_down"]
    assert str(events[0].fields["done"]).startswith(choice)
    assert "period.store_down scope=digest" in caplog.text


@in_a_loop
async def test_without_its_store_an_async_call_is_skipped_or_fired_as_told() -> None:
    app = App("postgresql://postgres@127.0.0.1:1/none")

    async def send() -> str:
        return "sent"

    assert await app.once_per("day")(send)() is SKIPPED
    assert await app.once_per("day", on_store_down="fire")(send)() == "sent"


def test_a_store_that_goes_while_the_work_is_done_takes_no_result_away(sqlite_app: App) -> None:
    events = heard(sqlite_app)
    store: Any = sqlite_app.store
    carry_out = store.run

    def failing(command: Any, within: Any = None) -> Any:
        if command.name == "claim_end":
            raise onejob.StoreUnavailable("there", "gone for a moment")
        return carry_out(command, within)

    @sqlite_app.once_per(YEAR)
    def digest() -> str:
        store.run = failing
        return "sent"

    assert digest() == "sent"
    assert "store.trouble" in named(events)
    store.run = carry_out

    for _ in range(500):
        if claimed_states(sqlite_app) == ["done"]:
            break
        threading.Event().wait(0.02)
    assert claimed_states(sqlite_app) == ["done"]


def test_missing_tables_are_said_and_not_taken_for_an_outage(tmp_path: Any) -> None:
    """A07"""
    app = App(f"sqlite:///{tmp_path}/none.db")

    with pytest.raises(SchemaMismatch, match="onejob init"):
        app.once_per("day", on_store_down="fire")(lambda: None)()
    app.close()


def test_where_onejob_is_disabled_nothing_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("postgresql://postgres@127.0.0.1:1/none")
    monkeypatch.setenv("ONEJOB_DISABLED", "1")

    assert app.once_per("day", on_store_down="fire")(lambda: "sent")() is SKIPPED


def test_a_forked_child_that_leaves_the_body_ends_nothing(sqlite_app: App) -> None:
    """A03: the claim is its parent's, and its connections too."""

    @sqlite_app.once_per(YEAR)
    def digest() -> int | None:
        child = os.fork()
        return os.waitpid(child, 0)[1] if child else None

    status = digest()
    if status is None:
        os._exit(0 if row(sqlite_app).state == "claimed" else 1)

    assert status == 0
    assert row(sqlite_app).state == "done"


def test_what_can_not_be_right_is_refused_before_any_call() -> None:
    """P8"""
    app = App("postgresql://postgres@127.0.0.1:1/none")

    def generator() -> Iterator[int]:
        yield 1

    def digest() -> None: ...

    for wrong, said in (
        (lambda: app.once_per("fortnight"), "names no period"),
        (lambda: app.once_per("day", tz="Mars/Base"), "not a known time zone"),
        (lambda: app.once_per("day", ttl="10ms"), "shorter than 1s"),
        (lambda: app.once_per("day", on_store_down="pray"), "'skip' or 'fire'"),  # type: ignore[arg-type]
        (lambda: app.once_per("day", name=" x"), "space around it"),
        (lambda: app.once_per("day")(generator), "is a generator"),
        (lambda: app.once_per("day")(App), "is for functions"),
        (lambda: app.once_per("day")("digest"), "is for functions"),  # type: ignore[arg-type]
        (lambda: app.once_per("day", name="digest")(digest) and two(app), "are those of"),
    ):
        with pytest.raises(UsageError, match=said):
            wrong()


def two(app: App) -> object:
    """Give a second function the name of a first."""

    def other() -> None: ...

    return app.once_per("hour", name="digest")(other)


def test_old_periods_are_forgotten_where_no_replica_does_it(sqlite_app: App) -> None:
    """F15: what is kept does not grow for ever where nothing but once_per is used."""
    now = sqlite_app.store.run(views.clock())
    long_ago = now - 400 * DAY
    for owner in "ab":
        old = claims.take(claims.PERIOD, "old", "1", owner=owner, lease=DAY, keep=DAY, now=long_ago)
        sqlite_app.store.run(old)

    for n in range(16):
        sqlite_app.once_per(YEAR, name=f"name-{n}")(lambda: None)()

    assert sqlite_app.store.run(claims.listed(claims.PERIOD, scope="old")) == ()
    assert sqlite_app.store.run(views.events(schedule="old")) == ()
