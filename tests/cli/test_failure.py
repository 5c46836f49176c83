"""How commands end."""

from __future__ import annotations

import time

import click
import pytest
from click.testing import CliRunner

from cli.conftest import Shop
from onejob.cli.failure import exit_code, mapped
from onejob.cli.root import root
from onejob.errors import (
    EffectUnknown,
    NotAcquired,
    OnejobError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreUnavailable,
    UsageError,
)

UNREACHABLE = "postgresql://someone:s3cret@127.0.0.1:1/shop"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("fix it"), 2),
        (StoreUnavailable("host/db", "refused"), 3),
        (SchemaMismatch("host/db", found=None, wanted=1), 3),
        (OutcomeUnknown("run_claim", "host/db", "reset"), 4),
        (EffectUnknown("scope", "key", provider_key="oj-1", why="died"), 4),
        (NotAcquired("somebody has it"), 1),
    ],
)
def test_each_family_of_errors_has_its_exit_code(error: OnejobError, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_is_one_sentence_without_traceback(empty: Shop) -> None:
    code, out, err = empty.finished("runs")

    assert (code, out) == (3, "")
    assert err.startswith("onejob: no onejob tables at ")
    named = "" if empty.schema == "onejob" else f" --schema {empty.schema}"
    assert err.endswith(f"Run: onejob init{named}\n")
    assert len(err.splitlines()) == 1


def test_an_unreachable_store_is_said_without_the_password() -> None:
    began = time.monotonic()
    result = CliRunner().invoke(root, ["runs", "--url", UNREACHABLE])

    assert result.exit_code == 3
    assert "127.0.0.1" in result.stderr
    assert "shop" in result.stderr
    assert "s3cret" not in result.output
    assert time.monotonic() - began < 20


def test_a_url_that_is_none_is_not_repeated() -> None:
    result = CliRunner().invoke(root, ["runs", "--url", "postgres//someone:s3cret@host/db"])

    assert result.exit_code == 2
    assert "s3cret" not in result.output


def test_an_unexpected_error_says_how_to_see_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @click.command()
    def command() -> None:
        with mapped():
            raise RuntimeError("nobody \x1b[31mforesaw this")

    result = CliRunner().invoke(command)
    monkeypatch.setenv("ONEJOB_DEBUG", "1")
    debugged = CliRunner().invoke(command)

    assert result.exit_code == 70
    assert "unexpected RuntimeError: nobody [31mforesaw this" in result.stderr
    assert "ONEJOB_DEBUG=1" in result.stderr
    assert isinstance(debugged.exception, RuntimeError)


def test_debugging_lets_the_traceback_of_an_expected_error_through(empty: Shop) -> None:
    result = empty.invoke("runs", ONEJOB_DEBUG="1")

    assert isinstance(result.exception, SchemaMismatch)


def test_a_store_in_memory_is_refused_before_anything_is_shown() -> None:
    result = CliRunner().invoke(root, ["runs", "--url", "memory://"])

    assert result.exit_code == 2, result.output
