"""``onejob once``: run any program once over all machines: in each period, or for each key.

Exit codes: the program's own; 0 (or --skipped-exit) where there was nothing to do; 75 when the
lease was lost and the program stopped; 69 when the store could not be reached, and nothing was run;
127 when the program cannot be started. A program that a signal ended counts as 128 + its number.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import remark
from onejob.errors import LeaseLost, NotAcquired, SchemaMismatch, StoreError, UsageError

if TYPE_CHECKING:
    from onejob.app import App
    from onejob.cli.child import Child, Grip
    from onejob.lease import Lease
    from onejob.turn import Turn, Wish

LEASE_LOST: Final = 75
STORE_UNREACHABLE: Final = 69
CANNOT_START: Final = 127

_CODE = click.IntRange(0, 255)

#: Pause between tries to record the end, while the lease lasts.
_AGAIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Result:
    """What happened, as ``--json`` says it on the last line of stderr; ``why`` if not plainly.

    ``busy``: it did not run because another one is at it, which may yet fail.
    """

    name: str
    ran: bool = False
    exit: int = 0
    key: str | None = None
    token: int | None = None
    why: str | None = None
    busy: bool = False


@click.command("once")
@click.argument("name")
@click.argument("argv", metavar="-- CMD [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--per", metavar="PERIOD", help="day, hour, 15m, or a cron expression: once in each.")
@click.option("--tz", metavar="ZONE", help="Where days begin: Europe/Berlin. Default: UTC.")
@click.option("--key", metavar="TEXT", help="Once for this key, such as the scheduled time.")
@click.option("--ttl", metavar="SPAN", default="30s", help="Free this long after a death: 30s.")
@click.option("--grace", metavar="SPAN", default="10s", help="SIGTERM to SIGKILL, at most: 10s.")
@click.option("--skipped-exit", type=_CODE, help="Exit code when there was nothing to do: 0.")
@click.option("--busy-exit", type=_CODE, help="The same, where another one is at it, and may fail.")
@click.option("--keep-failed", is_flag=True, help="A program that fails counts as done.")
@click.option(
    "--single-machine", is_flag=True, help="SQLite is right here, whatever it looks like."
)
@store_options
def command(
    invocation: Invocation,
    name: str,
    argv: tuple[str, ...],
    per: str | None,
    tz: str | None,
    key: str | None,
    ttl: str,
    grace: str,
    skipped_exit: int | None,
    busy_exit: int | None,
    keep_failed: bool,
    single_machine: bool,
) -> None:
    """Run CMD once over all machines: in each --per, or for each --key.

    NAME keeps CMD from running beside itself; with neither, that is all. CMD finds ONEJOB_TOKEN and
    ONEJOB_KEY in its environment; it is stopped when the lease is lost, and ends with us. If it
    fails, the period or key is given back, for whoever asks next.
    """
    if not hasattr(os, "fork"):
        raise UsageError("onejob once needs a system with fork and signals: not this one.")
    from onejob import environment
    from onejob.cli.child import Child
    from onejob.cli.leash import Leash
    from onejob.core.time import duration

    wish = _wish(name, per, tz, key, ttl)
    patience = duration(grace, what="--grace")
    if environment.disabled(os.environ):
        _finish(invocation, Result(name, exit=skipped_exit or 0, why="ONEJOB_DISABLED is set"))
    # Before there is a thread or a connection.
    leash = Leash.forked()
    child = Child(leash, grace=patience)
    try:
        with invocation.opened() as app:
            _refuse_fleet(app, single_machine)
            run = _period if wish.per or wish.key else _alone
            result = run(app, child, wish, argv, keep_failed)
    except SchemaMismatch as error:
        result = Result(name, exit=STORE_UNREACHABLE, why=str(error))
    except StoreError as error:
        result = Result(name, exit=STORE_UNREACHABLE, why=f"{error} Nothing was run.")
    finally:
        leash.release()
    if not result.ran and not result.exit:
        code = busy_exit if result.busy and busy_exit is not None else skipped_exit
        result = replace(result, exit=code or 0)
    _finish(invocation, result)


def _wish(name: str, per: str | None, tz: str | None, key: str | None, ttl: str) -> Wish:
    from onejob.core.lease import LEAST_LEASE
    from onejob.core.names import check_name
    from onejob.core.period import Per
    from onejob.core.time import duration
    from onejob.turn import Wish

    if per is not None and key is not None:
        raise UsageError("--per and --key both say which work it is. Give one of them.")
    if tz is not None and per is None:
        raise UsageError("--tz says where the periods of --per begin. Give --per, or leave it out.")
    return Wish(
        scope=check_name(name, what="NAME"),
        ttl=duration(ttl, what="--ttl", least=LEAST_LEASE),
        per=None if per is None else Per.parse(per, tz),
        key="" if key is None else check_name(key, what="--key"),
    )


def _refuse_fleet(app: App, single_machine: bool) -> None:
    from onejob import environment

    platform = environment.fleet(os.environ)
    if app.store.dialect == "sqlite" and platform and not single_machine:
        raise UsageError(
            f"this looks like one of many instances, on {platform}, and SQLite is a file of this "
            "one: each would run the command. Use postgresql://, or say --single-machine."
        )


def _period(app: App, child: Child, wish: Wish, argv: Sequence[str], keep_failed: bool) -> Result:
    """Run the program under a claim on its period, or key; not beside that of another period."""
    from onejob import turn as turns
    from onejob.core.time import SECOND
    from onejob.steps import carry

    services = app._services()
    turn = carry(turns.take(wish, services, lambda held: child.wake()), services.run())
    if isinstance(turn, turns.NoTurn):
        return Result(wish.scope, key=turn.key, why=turn.why, busy=turn.busy)
    if wish.per is None:
        return _turn(app, child, wish, turn, argv, keep_failed)
    result = None
    try:
        with app.lock(
            wish.scope, ttl=wish.ttl / SECOND, on_lost=lambda lease: child.wake()
        ) as lease:
            result = _turn(app, child, wish, turn, argv, keep_failed, lease)
    except (NotAcquired, LeaseLost, StoreError) as error:
        if result is None:  # else the end of the period has been recorded
            _record(app, turn, f"not begun: {error}")
            if not isinstance(error, NotAcquired):
                raise
            return Result(wish.scope, key=turn.claim.key, why=str(error), busy=True)
    return result


def _turn(
    app: App,
    child: Child,
    wish: Wish,
    turn: Turn,
    argv: Sequence[str],
    keep_failed: bool,
    lease: Lease | None = None,
) -> Result:
    from onejob.cli.child import CannotStart, Grip

    held, clock = turn.held, app._services().clock
    mine = Result(wish.scope, True, key=turn.claim.key, token=int(turn.claim.token))
    if child.asked_to_end:
        _record(app, turn, f"signal {child.asked_to_end} before it began")
        return replace(mine, ran=False, exit=128 + child.asked_to_end, why="asked to end")
    grip = Grip(lambda: held.over(clock.now()), lambda: held.deadline, wish.ttl)
    if lease is not None:
        grip = grip.beside(_grip(app, wish, lease))
    try:
        ended = child.run(argv, _environment(mine), grip)
    except CannotStart as error:
        _record(app, turn, f"cannot be started: {error}")
        return replace(mine, ran=False, exit=CANNOT_START, why=str(error))
    failure = f"exit {ended.code}" if ended.code else ""
    if ended.stopped:
        _record(app, turn, f"stopped: {ended.stopped}")
        return replace(mine, exit=LEASE_LOST, why=ended.stopped)
    if not _record(app, turn, failure, keep=keep_failed):
        return replace(mine, exit=LEASE_LOST, why="another one had taken it over when it ended")
    return replace(mine, exit=ended.code)


def _record(app: App, turn: Turn, error: str, *, keep: bool = False) -> bool:
    """Record how it ended, trying for as long as the lease lasts. False: it is not ours."""
    from onejob import turn as turns
    from onejob.steps import carry

    services = app._services()
    command = turns.ending(turn, error, keep=keep)
    try:
        while True:
            try:
                ours = bool(services.run()(command))
                carry(turns.tidy(turn, services), services.run())
                return ours
            except StoreError as trouble:
                if turn.held.over(services.clock.now()):
                    remark(f"onejob: the end could not be recorded: {trouble}")
                    return True
                time.sleep(_AGAIN_SECONDS)
    finally:
        services.renewer.drop(turn.held)


def _alone(app: App, child: Child, wish: Wish, argv: Sequence[str], keep_failed: bool) -> Result:
    """Run the program under a named lock: it excludes overlap, and remembers nothing."""
    from onejob.cli.child import CannotStart
    from onejob.core.time import SECOND

    mine = Result(wish.scope, True)
    try:
        with app.lock(
            wish.scope, ttl=wish.ttl / SECOND, on_lost=lambda lease: child.wake()
        ) as lease:
            mine = replace(mine, token=lease.token)
            if child.asked_to_end:
                return replace(mine, ran=False, exit=128 + child.asked_to_end, why="asked to end")
            ended = child.run(argv, _environment(mine), _grip(app, wish, lease))
            if ended.stopped:
                return replace(mine, exit=LEASE_LOST, why=ended.stopped)
            return replace(mine, exit=ended.code)
    except NotAcquired as error:
        return Result(wish.scope, why=str(error), busy=True)
    except CannotStart as error:
        return replace(mine, ran=False, exit=CANNOT_START, why=str(error))
    except LeaseLost as error:
        return replace(mine, exit=LEASE_LOST, why=error.why)


def _grip(app: App, wish: Wish, lease: Lease) -> Grip:
    from onejob.cli.child import Grip
    from onejob.core.time import SECOND

    clock = app._services().clock
    return Grip(
        lambda: "its lease is over" if lease.lost else "",
        lambda: clock.now() + round(lease.remaining() * SECOND),
        wish.ttl,
    )


def _environment(mine: Result) -> dict[str, str]:
    """Return ours, with the token and the key, and without the URL, which may hold a password."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name not in ("ONEJOB_URL", "ONEJOB_TOKEN", "ONEJOB_KEY")
    }
    passed["ONEJOB_TOKEN"] = str(mine.token)
    return passed if mine.key is None else {**passed, "ONEJOB_KEY": mine.key}


def _finish(invocation: Invocation, result: Result) -> None:
    """Say what happened, where somebody reads it, and end with the exit code."""
    failed = result.exit in (LEASE_LOST, STORE_UNREACHABLE, CANNOT_START) and result.why
    # A skip is the daily case of all machines but one: cron would send each of them by mail.
    if failed or (result.why and sys.stderr.isatty()):
        remark(f"onejob: {result.name}: {result.why}")
    if invocation.as_json:
        click.echo(json.dumps(asdict(result)), err=True)
    click.get_current_context().exit(result.exit)
