"""``onejob effects``: effects that nobody can tell the outcome of, until a person says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click

from onejob.cli.failure import USAGE, Failure
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.cli.text import utc, when
from onejob.core.time import instant
from onejob.errors import UsageError

if TYPE_CHECKING:
    from onejob.effects import EffectInfo

#: How many can be listed at once.
LISTED_MAX = 1_000


@click.group("effects", invoke_without_command=True)
@store_options
@click.pass_context
def command(ctx: click.Context, invocation: Invocation) -> None:
    """List effects whose outcome is unknown; settle one."""
    if ctx.invoked_subcommand is None:
        _list(invocation)


@command.command("unknown")
@store_options
def unknown(invocation: Invocation) -> None:
    """List effects that were claimed and whose outcome nobody knows, oldest first."""
    _list(invocation)


@command.command("resolve")
@click.argument("scope")
@click.argument("key")
@click.argument("answer", type=click.Choice(["done", "redo", "failed"]))
@click.option("--result", metavar="JSON", help="What a repeat of a done effect returns.")
@store_options
def resolve(
    invocation: Invocation,
    scope: str,
    key: str,
    answer: Literal["done", "redo", "failed"],
    result: str | None,
) -> None:
    """Say what happened to an effect, after looking it up at its provider.

    done: it took place. redo: it did not, call again. failed: it was refused for good.
    A run that waits for it goes on. Of a run, SCOPE is job/key, as listed.
    """
    try:
        value = None if result is None else json.loads(result)
    except ValueError as error:
        raise UsageError(
            f"--result is not JSON: {error}. Text needs quotes: '\"paid\"'."
        ) from error
    with invocation.opened() as app:
        try:
            settled = app.effects.resolve(scope, key, answer, result=value)
        except LookupError as error:
            raise Failure(f"{error.args[0]} See: onejob effects unknown", code=USAGE) from error
    if invocation.as_json:
        document({"scope": scope, "key": key, "answer": answer, "effect": _as_json(settled)})
    else:
        data(f"{key} in {scope}: {answer}")


def _list(invocation: Invocation) -> None:
    with invocation.opened() as app:
        found = app.effects.unknown(limit=LISTED_MAX)
    if invocation.as_json:
        document([_as_json(effect) for effect in found])
    elif found:
        table(
            ("SCOPE", "KEY", "CLAIMED", "CALLS", "RUN", "NOTE"),
            [
                (
                    effect.scope,
                    effect.key,
                    when(instant(effect.claimed_at, what="claimed")),
                    effect.attempt,
                    effect.run_id,
                    effect.error or "its caller was lost during the call",
                )
                for effect in found
            ],
        )
        remark(
            "Look each up at its provider, then: onejob effects resolve SCOPE KEY done|redo|failed"
        )
    else:
        remark("No effect is unknown: nothing to settle.")


def _as_json(effect: EffectInfo | None) -> dict[str, object] | None:
    if effect is None:
        return None
    return {
        "scope": effect.scope,
        "key": effect.key,
        "state": effect.state,
        "attempt": effect.attempt,
        "claimed_at": utc(instant(effect.claimed_at, what="claimed")),
        "age_seconds": effect.age.total_seconds(),
        "owner": effect.owner,
        "run_id": effect.run_id,
        "result": effect.result,
        "error": effect.error,
    }
