"""Group 7: security and operations."""

from __future__ import annotations

import logging
import traceback

import pytest
from click.testing import CliRunner

from cases.conftest import Begin, Place
from cases.test_group_2 import enqueued, working
from onejob import App, AsyncRun, StoreUnavailable, UsageError
from onejob.cli.root import root
from onejob.core.run import ERROR_CHARACTERS

SECRET = "hunter2"


def test_arguments_are_neither_logged_nor_shown(
    place: Place, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    """G03: at every level of the log, in every event, in what the command line prints."""
    caplog.set_level(logging.DEBUG)
    timeline, events = begin(), []
    app = place.app(lease="3s", poll="1s")
    app.events.listen(lambda event: events.append(str(event)))

    @app.job()
    async def sign_up(password: str) -> None:
        await _fail()

    timeline.replica(app)
    timeline.go(4)
    sign_up.using(at=timeline.now(), key="ann").enqueue(password=SECRET)
    timeline.go(4)

    commands = [["runs"], ["jobs"], ["why", "sign_up", "ann"], ["doctor"], ["replicas"]]
    printed = [
        CliRunner().invoke(root, [*words, *style], env=place.environment).output
        for words in commands
        for style in ([], ["--json"])
    ]
    assert any("failed" in text or "retr" in text for text in printed)
    assert events
    assert SECRET not in "".join([caplog.text, *events, *printed])


async def _fail() -> None:
    raise ValueError("the password is too short")


def test_a_long_error_is_cut(place: Place, begin: Begin) -> None:
    """G03: what an exception says is kept up to a bound."""
    timeline = begin()

    async def work(run: AsyncRun) -> None:
        raise ValueError("x" * 1_000_000)

    app, job = working(place, work, lease="3s", poll="1s")
    timeline.replica(app)
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(3)

    run = app.runs.get(id)
    assert run is not None
    assert len(str(run.error)) <= ERROR_CHARACTERS


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://shop:{SECRET}@127.0.0.1:1/shop",
        f"postgresql://127.0.0.1:1/shop?user=shop&password={SECRET}",
        "postgresql://shop:%68unter2@127.0.0.1:1/shop",
    ],
)
def test_a_password_is_in_no_text_that_leaves_us(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """G04: not in repr, error, traceback, log or what the doctor prints."""
    caplog.set_level(logging.DEBUG)
    app = App(url)

    with pytest.raises(StoreUnavailable) as raised:
        app.check()

    texts = [
        repr(app),
        repr(app._services()),
        "".join(traceback.format_exception(raised.value)),
        CliRunner().invoke(root, ["doctor", "--url", url]).output,
        caplog.text,
    ]
    assert "127.0.0.1" in texts[2]
    assert [text for text in texts if SECRET in text or "%68unter2" in text] == []


EVIL = ['a"; drop table x;--', "Foo", "a.b", "a-b", "", "ü", "a" * 64, "1st", "pg_own", "sqlite"]


@pytest.mark.parametrize("schema", EVIL)
def test_a_schema_name_that_would_need_care_is_refused(sqlite_url: str, schema: str) -> None:
    """G05: before any I/O."""
    with pytest.raises(UsageError, match="schema"):
        App(sqlite_url, schema=schema)


@pytest.mark.parametrize("name", ["a" * 30, "select", "user", "table_1"])
def test_an_allowed_schema_name_works_to_the_letter(place: Place, name: str) -> None:
    """G05: words of SQL and long names included, on both stores."""
    app = Place(place.url, f"{name}_{place.schema}"[:48] if name[0] == "a" else name, []).app()
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it

    @app.job()
    def resize() -> None: ...

    answers = [resize.using(key="7").enqueue().created for _ in range(2)]
    app.close()

    assert answers == [True, False]
