"""Payloads at their limit, and notifications that carry none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from onejob import App, UsageError
from onejob.commands import replicas
from onejob.core.payload import PAYLOAD_BYTES_MAX

#: What is around the text in ``{"text":"…"}``.
FRAME = len('{"text":""}')
FOUR_BYTES = "\N{SLEEPING SYMBOL}"


@pytest.fixture(params=["sqlite", "postgresql"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    if request.param == "sqlite":
        app = App(request.getfixturevalue("sqlite_url"), name="shop")
    else:
        url = request.getfixturevalue("postgres_url")
        app = App(url, schema=request.getfixturevalue("schema"), name="shop")
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it

    @app.job()
    def keep(text: str) -> None: ...

    yield app
    app.close()


@pytest.mark.parametrize("character", ["x", FOUR_BYTES], ids=["one byte", "four bytes"])
def test_a_payload_is_measured_in_bytes_at_its_limit_and_one_beyond(
    app: App, character: str
) -> None:
    """F07, F17: at the limit it is kept whole; a byte more is refused before any I/O."""
    most, rest = divmod(PAYLOAD_BYTES_MAX - FRAME, len(character.encode()))
    text = character * most + "y" * rest

    kept = app.jobs["keep"].enqueue(text)
    with pytest.raises(UsageError, match="the limit is 1,000,000"):
        app.jobs["keep"].enqueue(text + "y")

    assert [run.id for run in app.runs.find()] == [kept.run_id]


#: What databases, drivers and other languages' JSON lose: digits, NUL, four bytes, separators.
NUMBERS = [2**53 + 1, -(2**63) - 1, 2**64, 10**40]
TEXT = f'a\0b\u2028"\\ {FOUR_BYTES} \x7f\x1b'


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True], ids=["one", "many"])
def test_what_json_finds_hard_reaches_the_handler_and_comes_back(app: App, together: bool) -> None:
    """F16: through the store, and as a result through it once more."""
    seen: list[object] = []

    @app.job()
    def take(
        numbers: list[int],
        text: str,
        nested: dict[str, Any],
        pair: tuple[int, str],
        kinds: set[str],
        by_id: dict[int, str],
    ) -> dict[str, Any]:
        seen.extend([numbers, text, nested, pair, kinds, by_id])
        return {"numbers": numbers, "text": text, "nested": nested}

    given: dict[str, Any] = {
        "numbers": NUMBERS,
        "text": TEXT,
        "nested": {"\0": {FOUR_BYTES: [None, 0.1, True, -0.0]}},
        "pair": (7, TEXT),
        "kinds": {"a", FOUR_BYTES},
        "by_id": {2**60: "x"},
    }
    key = FOUR_BYTES * 256
    using = take.using(key=key)
    [made] = using.enqueue_many([given]) if together else [using.enqueue(**given)]
    app.start()
    ended = app.runs.wait(made.run_id, timeout="30s")
    app.stop()

    assert seen == list(given.values())
    assert (ended.outcome, ended.key) == ("succeeded", key)
    assert ended.result == {name: given[name] for name in ("numbers", "text", "nested")}


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [float("inf")],
        (1, 2),
        {1, 2},
        {"rows": [{2: "two"}]},
        {None: 1},
        {True: 1},
        "\ud800",
        b"bytes",
        pytest,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_come_back_writes_nothing(app: App, value: Any) -> None:
    """F16, P8: alone, and among a thousand that could be stored."""

    @app.job()
    def take(value: Any) -> None: ...

    with pytest.raises(UsageError, match=r"take: args"):
        take.enqueue(value)
    with pytest.raises(UsageError, match=r"take: args"):
        take.enqueue_many([*({"value": n} for n in range(1_000)), {"value": value}])

    assert app.runs.find() == []


@pytest.mark.parametrize(
    "key", ["a\0b", FOUR_BYTES * 256 + "x", " x", ""], ids=["NUL", "a byte over", "space", "empty"]
)
def test_a_key_that_no_store_keeps_alike_writes_nothing(app: App, key: str) -> None:
    """F16, P8: NUL, a byte beyond the limit, spaces around it, nothing."""
    with pytest.raises(UsageError, match="key"):
        app.jobs["keep"].using(key=key).enqueue("x")
    with pytest.raises(UsageError, match="key"):
        app.jobs["keep"].using(key=lambda args: key).enqueue_many([{"text": "x"}])

    assert app.runs.find() == []


def test_a_notification_carries_no_payload_however_large_the_run(
    postgres_url: str, schema: str
) -> None:
    """F06: a NOTIFY of over 8,000 bytes would make the user's own transaction fail."""
    app = App(postgres_url, schema=schema, name="shop")
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it

    @app.job()
    def keep(text: str) -> None: ...

    new = replicas.NewReplica("a" * 12, "shop", "here", 1, "", ["keep"], {}, 60_000_000)  # type: ignore[arg-type]
    app.store.run(replicas.join(new))
    with psycopg.connect(postgres_url, autocommit=True) as session:
        channel = app.store.catalogue.prefix  # type: ignore[attr-defined]  # a store of texts
        session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        keep.enqueue("busy" * 200_000)
        quiet = list(session.notifies(timeout=0.3))
        app.store.run(replicas.idle(new.id, idle=True))
        keep.enqueue("idle" * 200_000)
        [told] = session.notifies(timeout=5, stop_after=1)
    app.close()

    assert quiet == []
    assert len(told.payload) <= 64
