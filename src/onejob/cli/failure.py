"""How errors end: one clear sentence on stderr, no traceback, and the exit code of the family."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from onejob.cli.text import clean
from onejob.errors import (
    EffectUnknown,
    OnejobError,
    OutcomeUnknown,
    Refused,
    StoreError,
    UsageError,
)

FINDINGS, USAGE, STORE, UNKNOWN, WORK_LEFT, BUG = 1, 2, 3, 4, 5, 70
INTERRUPTED = 130


class Failure(click.ClickException):
    """A command that ends with an exit code and a sentence."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        # A class variable by its annotation, and read from the instance all the same.
        self.exit_code = code  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the sentence to stderr."""
        click.echo(f"onejob: {clean(self.message)}", file=file, err=file is None)


def exit_code(error: OnejobError) -> int:
    """Return the exit code of an error's family."""
    match error:
        case UsageError():
            return USAGE
        case OutcomeUnknown() | EffectUnknown():
            return UNKNOWN
        case StoreError():
            return STORE
        case Refused():
            return FINDINGS
        case _:
            return FINDINGS


@contextmanager
def mapped() -> Iterator[None]:
    """Turn what a command raises into a Failure; ONEJOB_DEBUG=1 lets the traceback through."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OnejobError as error:
        if _debugging():
            raise
        raise Failure(str(error), code=exit_code(error)) from error
    except BrokenPipeError:
        raise  # click ends quietly: whoever read us has read enough
    except Exception as error:
        # The edge of the program: nothing may end in a traceback that the user has not asked for.
        if _debugging():
            raise
        sentence = (
            f"unexpected {type(error).__name__}: {error}. Set ONEJOB_DEBUG=1 for the traceback."
        )
        raise Failure(sentence, code=BUG) from error


def _debugging() -> bool:
    return os.environ.get("ONEJOB_DEBUG", "") not in ("", "0")
