"""The root command: what every command shares."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.conftest import Shop
from onejob.cli.root import COMMANDS, root

LOADED = """
import sys
from onejob.cli.root import root
try:
    root(["--help"])
except SystemExit:
    pass
heavy = {"rich", "psycopg", "asyncio", "sqlite3", "onejob.app"} | {f"onejob.cli.{c}" for c in %r}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


def test_help_imports_no_command_and_no_library_behind_one() -> None:
    script = LOADED % list(COMMANDS)

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stderr.strip() == "[]"
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_file_a_help_text_and_the_shared_options(name: str) -> None:
    command = import_module(f"onejob.cli.{name.replace('-', '_')}").command

    assert command.name == name
    assert command.help
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--url", "--schema", "--json"} <= options


def test_options_are_accepted_before_and_after_the_command(shop: Shop) -> None:
    before = shop.invoke("--json", "--schema", shop.schema, "runs", ONEJOB_SCHEMA="elsewhere")
    after = shop.invoke("runs", "--json", "--schema", shop.schema, ONEJOB_SCHEMA="elsewhere")

    assert (before.exit_code, before.stdout) == (0, "[]\n")
    assert (after.exit_code, after.stdout) == (0, "[]\n")


def test_options_are_accepted_after_a_command_of_a_command(shop: Shop) -> None:
    result = shop.invoke("effects", "unknown", "--json")

    assert (result.exit_code, result.stdout) == (0, "[]\n")


def test_a_misspelt_command_names_the_one_that_is_close() -> None:
    result = CliRunner().invoke(root, ["rnus"])

    assert result.exit_code == 2
    assert "Did you mean 'runs'?" in result.stderr


def test_the_named_app_decides_url_and_schema(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"named_{tmp_path.name}_{shop.app.store.dialect}"
    text = f"from onejob import App\napp = App({shop.url!r}, schema={shop.schema!r})\n"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    result = CliRunner().invoke(
        root,
        ["runs", "--json"],
        env={"ONEJOB_APP": f"{module}:app", "ONEJOB_URL": "sqlite:///elsewhere.db"},
    )
    contradicted = CliRunner().invoke(
        root, ["runs", "--schema", "other"], env={"ONEJOB_APP": f"{module}:app"}
    )

    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    assert contradicted.exit_code == 2
    assert "keeps its tables in schema" in contradicted.stderr


def test_looking_never_creates_a_file(tmp_path: Path) -> None:
    file = tmp_path / "absent.db"

    result = CliRunner().invoke(root, ["runs", "--url", f"sqlite:///{file}"])

    assert result.exit_code == 3
    assert "onejob init" in result.stderr
    assert not file.exists()


def advised(*arguments: str, **environment: str) -> str:
    """Run a command over a store without tables; return what the message says to run."""
    result = CliRunner().invoke(root, arguments, env=environment)
    assert result.exit_code == 3, result.output
    return result.stderr.rstrip().partition("Run: ")[2]


def test_missing_tables_are_made_by_what_the_message_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following the advice leads to this store, not to one beside it."""
    module = f"bare_{tmp_path.name}"
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    text = f"from onejob import App\napp = App({url!r}, schema='shop')\n"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    spec = f"{module}:app"
    by_app = f"ONEJOB_APP={spec} onejob init"

    assert advised("worker", spec) == by_app
    assert advised("runs", ONEJOB_APP=spec) == by_app
    assert advised("runs", "--url", url) == f"onejob init --url {url}"
    assert advised("runs", "--url", url, "--schema", "b") == f"onejob init --url {url} --schema b"
    assert advised("runs", "--schema", "b", ONEJOB_URL=url) == "onejob init --schema b"
    assert advised("runs").startswith("onejob init, or, where your code names the store, ")
    assert by_app in CliRunner().invoke(root, ["doctor"], env={"ONEJOB_APP": spec}).stdout

    assert CliRunner().invoke(root, ["init"], env={"ONEJOB_APP": spec}).exit_code == 0
    assert CliRunner().invoke(root, ["runs"], env={"ONEJOB_APP": spec}).exit_code == 0


def test_the_advice_repeats_no_url_that_may_hold_a_password(postgres_url: str, schema: str) -> None:
    said = advised("runs", "--url", postgres_url, "--schema", schema)

    assert said == f"onejob init --url URL --schema {schema}"


def test_help_says_what_the_environment_may_say() -> None:
    shown = CliRunner().invoke(root, ["--help"]).stdout

    assert "Environment:" in shown
    for name in ("ONEJOB_APP", "ONEJOB_URL", "ONEJOB_SCHEMA", "ONEJOB_DISABLED", "ONEJOB_DEBUG"):
        assert name in shown.partition("Environment:")[2]


def test_a_command_is_a_click_command_of_its_own_name() -> None:
    context = click.Context(root)

    assert [root.get_command(context, name).name for name in COMMANDS] == list(COMMANDS)  # type: ignore[union-attr]
    assert root.get_command(context, "no such") is None
