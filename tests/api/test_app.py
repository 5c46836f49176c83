from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onejob import App, SchemaMismatch, StoreUnavailable, UsageError
from onejob.core.time import DAY


@pytest.mark.parametrize(
    "option",
    [
        {"lease": "0.5s"},
        {"lease": "twelve"},
        {"lease": -3},
        {"poll": 0},
        {"keep": "-1d"},
        {"keep_effects": "400"},
        {"grace": True},
        {"schema": "Shop"},
        {"schema": 'a"; drop table x;--'},
        {"name": " shop"},
        {"name": ""},
        {"version": "one"},
        {"version": 1.5},
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": 2.5},
        {"keep": "30d", "keep_effects": "29d"},
    ],
)
def test_an_app_that_cannot_be_right_is_refused_when_it_is_built(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        App("memory://", **option)


def test_durations_are_read_in_every_form() -> None:
    app = App("memory://", lease=timedelta(seconds=3), poll=0.5, keep="7d", grace=30)

    assert app._settings.lease == 3_000_000
    assert app._settings.poll == 500_000
    assert app._settings.grace == 30_000_000


def test_building_and_importing_open_nothing(tmp_path: Path) -> None:
    """A07: safe at import, in a migration and in a test: no file, no connection, no driver."""
    program = """
import socket, sys
def refuse(*_, **__): raise AssertionError("opened a connection")
socket.socket.connect = socket.create_connection = refuse
from onejob import App, Run
app = App("postgresql://localhost:1/nowhere")
default = App()
@app.job()
def job(run: Run, x: int) -> None: ...
@app.cron("0 2 * * *", tz="Europe/Berlin")
def nightly() -> None: ...
repr(app), app.status()
assert "psycopg" not in sys.modules, "driver imported"
assert "sqlite3" not in sys.modules, "driver imported"
"""
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_the_default_store_makes_its_own_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONEJOB_URL", raising=False)
    app = App()

    app.start()
    app.close()

    assert (tmp_path / "onejob.db").exists()
    assert "one machine only" in capsys.readouterr().err


def test_a_store_without_tables_is_said_at_start(sqlite_url: str) -> None:
    """A07: one clear message at start, and no file left behind by having asked."""
    app = App(sqlite_url)

    with pytest.raises(SchemaMismatch, match="Run: onejob init"):
        app.start()

    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()
    assert not app.status().running


def test_a_postgresql_store_without_tables_is_said_at_start(postgres_url: str, schema: str) -> None:
    app = App(postgres_url, schema=schema)

    with pytest.raises(SchemaMismatch, match="Run: onejob init"):
        app.start()

    app.close()


def test_an_unreachable_store_is_logged_and_tried_again() -> None:
    app = App("postgresql://u:s3cr3t@127.0.0.1:1/shop")

    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/shop") as caught:
        app.check()
    app.start()
    waiting = str(app.status())
    app.close()

    assert "s3cr3t" not in str(caught.value)
    assert waiting == "starting: waiting for the store at 127.0.0.1:1/shop"


def test_nothing_starts_where_it_is_disabled(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("onejob.opening._said", set())
    monkeypatch.setenv("ONEJOB_DISABLED", "1")

    sqlite_app.start()
    sqlite_app.start()

    assert str(sqlite_app.status()) == "not running here: ONEJOB_DISABLED is set"
    assert capsys.readouterr().err.count("ONEJOB_DISABLED") == 1


def test_a_disabled_that_is_neither_yes_nor_no_is_refused(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEJOB_DISABLED", "maybe")

    with pytest.raises(UsageError, match="neither yes nor no"):
        sqlite_app.start()


@pytest.mark.parametrize(
    "variable", ["KUBERNETES_SERVICE_HOST", "ECS_CONTAINER_METADATA_URI_V4", "FLY_APP_NAME", "DYNO"]
)
def test_sqlite_refuses_to_start_in_a_fleet(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Three containers with a file each would be the very bug."""
    monkeypatch.setenv(variable, "10.0.0.1")

    with pytest.raises(UsageError, match=variable):
        App(sqlite_url).start()


def test_a_single_machine_may_be_declared(
    sqlite_app: App, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNO", "web.1")
    app = App(sqlite_url, single_machine=True)

    app.start()
    app.close()


def test_starting_twice_is_starting_once(sqlite_app: App) -> None:
    sqlite_app.start()
    serving = sqlite_app._serving

    sqlite_app.start()

    assert sqlite_app._serving is serving
    assert sqlite_app.stop() is False
    assert sqlite_app.stop() is False


def test_import_is_fast_and_public_names_are_there() -> None:
    import onejob

    assert len(set(onejob.__all__)) == len(onejob.__all__)
    for name in onejob.__all__:
        assert getattr(onejob, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = onejob.Nothing
    assert set(onejob.__all__) <= set(dir(onejob))


def test_a_missing_driver_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "onejob.stores.postgres", raising=False)

    app = App("postgresql://localhost/shop")

    with pytest.raises(UsageError, match=r"pip install onejob\[postgres\]"):
        app.check()


def test_a_host_whose_store_has_no_tables_does_not_come_up(sqlite_url: str) -> None:
    app = App(sqlite_url)

    async def scenario() -> None:
        async with app.lifespan():
            raise AssertionError("it came up")

    with pytest.raises(SchemaMismatch):
        asyncio.run(scenario())
    assert str(app.status()) == "not running here: not started"


def test_a_host_comes_up_without_a_replica_where_it_is_disabled(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEJOB_DISABLED", "yes")

    async def scenario() -> bool:
        async with sqlite_app.lifespan():
            return sqlite_app.status().running

    assert asyncio.run(scenario()) is False


def test_a_replica_in_the_thread_leaves_no_room_for_one_in_the_loop(sqlite_app: App) -> None:
    async def scenario() -> None:
        async with sqlite_app.lifespan():
            raise AssertionError("it came up")

    sqlite_app.start()
    with pytest.raises(UsageError, match="a replica already"):
        asyncio.run(scenario())
    assert sqlite_app._serving is not None


@pytest.mark.parametrize(
    "option",
    [
        {"queues": "default"},
        {"queues": []},
        {"queues": [" default"]},
        {"queues": 7},
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": "4"},
        {"concurrency": 2.5},
        {"grace": -1},
    ],
)
def test_a_replica_that_cannot_be_right_is_refused(option: dict[str, Any]) -> None:
    """The text "default" would be read as seven queues of a letter each."""
    with pytest.raises(UsageError):
        App("memory://").serving(**option)


def test_effects_are_kept_as_long_as_runs_at_least() -> None:
    """A run that is kept may be retried: its effects must not have been forgotten."""
    assert App("memory://")._settings.keep_effects == 400 * DAY
    assert App("memory://", keep="900d")._settings.keep_effects == 900 * DAY
    assert App("memory://", keep_effects="30d")._settings.keep_effects == 30 * DAY
