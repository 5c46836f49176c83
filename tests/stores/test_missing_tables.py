"""What is said where there are no tables: what makes them in this store, not in one beside it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from onejob import App
from onejob.cli.root import root
from onejob.errors import SchemaMismatch


def advised(app: App) -> str:
    with pytest.raises(SchemaMismatch) as caught:
        app.jobs["nothing"].enqueue()
    app.close()
    assert str(caught.value).endswith(f"Run: {caught.value.init}")
    return caught.value.init


def shop(url: str, schema: str) -> App:
    app = App(url, schema=schema, single_machine=True)

    @app.job()
    def nothing() -> None: ...

    return app


def test_following_the_advice_makes_the_tables_of_this_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'my shop.db'}"
    app = shop(url, "nights")

    line = advised(app)

    assert line == f"onejob init --url {shlex.quote(url)} --schema nights"
    assert CliRunner().invoke(root, shlex.split(line)[1:]).exit_code == 0
    app.check()
    app.close()


def test_no_url_that_may_hold_a_password_is_repeated(postgres_url: str, schema: str) -> None:
    assert advised(shop(postgres_url, schema)) == f"onejob init --url URL --schema {schema}"
