"""A store with tables, and the command line over it: in this process, or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onejob import App
from onejob.cli.root import root

#: An application as users write it, over the store of ONEJOB_URL and ONEJOB_SCHEMA.
SHOP = """
import os, pathlib, time
from onejob import App, Run

app = App(schema=os.environ.get("ONEJOB_SCHEMA", "onejob"), lease="3s", poll="100ms")

@app.job()
def resize(image_id: int) -> int:
    return image_id * 2

@app.job()
def slow(mark: str) -> None:
    pathlib.Path(mark).touch()
    time.sleep(60)

@app.cron("0 2 * * *", tz="Europe/Berlin")
def nightly(run: Run) -> None:
    pass
"""


@dataclass(frozen=True)
class Shop:
    """A store, and a directory with the application ``shop:app``."""

    app: App
    url: str
    schema: str
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"ONEJOB_URL": self.url, "ONEJOB_SCHEMA": self.schema}

    def invoke(self, *arguments: str, **environment: str) -> Result:
        """Run a command in this process."""
        return CliRunner().invoke(root, arguments, env={**self.environment, **environment})

    def json(self, *arguments: str) -> Any:
        """Run a command that is to succeed, and read its one JSON document."""
        result = self.invoke(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command in a process of its own, in the application's directory."""
        return subprocess.Popen(
            [sys.executable, "-c", "from onejob.cli import main; main()", *arguments],
            cwd=self.directory,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finished(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command in a process of its own to its end: exit code, stdout, stderr."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that the machine's own environment says reaches a test."""
    for name in ("ONEJOB_URL", "ONEJOB_SCHEMA", "ONEJOB_APP", "ONEJOB_DEBUG", "ONEJOB_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """A store without tables."""
    if request.param == "sqlite":
        url, schema = request.getfixturevalue("sqlite_url"), "onejob"
    else:
        url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("schema")
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "shop.py").write_text(SHOP)
    app = App(url, schema=schema)
    yield Shop(app, url, schema, directory)
    app.store.close()


@pytest.fixture
def shop(empty: Shop) -> Shop:
    """A store with tables."""
    assert empty.invoke("init").exit_code == 0
    return empty


@pytest.fixture
def sqlite_shop(sqlite_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A store with tables, where one kind of store tells enough."""
    app = App(sqlite_url)
    shop = Shop(app, sqlite_url, "onejob", tmp_path)
    assert shop.invoke("init").exit_code == 0
    yield shop
    app.store.close()
