"""``onejob prove``: try to break a program, by killing, freezing and doubling it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onejob.cli.failure import FINDINGS, UNKNOWN
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.errors import UsageError

if TYPE_CHECKING:
    from onejob.prove.program.effects import Effects
    from onejob.prove.program.faults import Plan

_SPEC = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@click.command("prove")
@click.option("--effects-file", metavar="FILE", help="Each line of it is an effect.")
@click.option("--effects-sql", metavar="QUERY", help="Each row is an effect; needs --url.")
@click.option("--effects-command", metavar="CMD", help="Each line that it prints is an effect.")
@click.option("--reset", metavar="CMD", default="", help="Undo all effects outside of the folder.")
@click.option("--budget", default="60s", show_default=True, help="How long to try.")
@click.option("--timeout", default="60s", show_default=True, help="How long one copy may run.")
@click.option("--freeze", help="How long a frozen copy stands still: longer than your leases.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the combinations.")
@click.option("--replay", type=click.Path(dir_okay=False, path_type=Path), help="Play that again.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the report.")
@click.option(
    "--target-is-disposable",
    is_flag=True,
    help="The database of --url is not on this machine, and holds nothing that matters.",
)
@click.option("--args", "arguments", metavar="JSON", default="{}", help="Arguments of JOB.")
@click.argument(
    "program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="MODULE:APP JOB | -- CMD…"
)
@store_options
def command(
    invocation: Invocation,
    effects_file: str | None,
    effects_sql: str | None,
    effects_command: str | None,
    reset: str,
    budget: str,
    timeout: str,
    freeze: str | None,
    seed: int,
    replay: Path | None,
    save: Path | None,
    target_is_disposable: bool,
    arguments: str,
    program: tuple[str, ...],
) -> None:
    """Kill, freeze, double and restart a job, or any program, and count its effects.

    Runs it without a fault first: each effect of that run must be there exactly once after every
    fault. Each play has a fresh copy of this folder, so nothing in it is touched; what the program
    does elsewhere is done for real, many times.

    Exits 0 if all held, 1 if something was lost or doubled, 4 if it did not come to its end. It
    never says "proved": it says what was tried, and shows the shortest history that broke it.
    """
    from onejob.core.time import SECOND, Span, duration
    from onejob.demo.ending import ending_on_sigterm
    from onejob.prove.program import told
    from onejob.prove.program.judge import Verdict
    from onejob.prove.program.search import Asked, check_folder, search

    def seconds(text: str, what: str) -> float:
        return duration(text, what=what, least=Span(SECOND // 10)) / SECOND

    effects = _effects(
        effects_file, effects_sql, effects_command, invocation.url, disposable=target_is_disposable
    )
    check_folder(Path.cwd())
    if job := _job(program):
        program = (sys.executable, "-m", "onejob.cli.prove_job", *job, _json(arguments))
    asked = Asked(
        command=program,
        effects=effects,
        folder=Path.cwd(),
        budget=seconds(budget, "--budget"),
        patience=seconds(timeout, "--timeout"),
        freeze=None if freeze is None else seconds(freeze, "--freeze"),
        seed=seed,
        reset=reset,
        apart=not reset and effects.quick,
        only=None if replay is None else _plan(replay),
    )
    with ending_on_sigterm(), _bar() as progress:
        tried = search(asked, progress=progress)
    report = told.document(tried, seed=seed)
    if save is not None:
        save.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if invocation.as_json:
        document(report)
    else:
        table(("FAULT", "PLAYS", "LOST", "DOUBLED", "UNKNOWN"), told.rows(tried))
        if tried.worst is not None:
            data("")
            for line in told.story(tried.worst):
                data(line)
            data("")
        data(told.sentence(tried))
        if tried.worst is not None:
            for line in told.advice(tried.worst.found):
                remark(line)
            if save is not None:
                remark(f"The same again: onejob prove --replay {save} … -- {' '.join(program)}")
    sys.exit({Verdict.HELD: 0, Verdict.VIOLATED: FINDINGS, Verdict.UNKNOWN: UNKNOWN}[tried.verdict])


def _effects(
    file: str | None,
    sql: str | None,
    command: str | None,
    url: str | None,
    *,
    disposable: bool,
) -> Effects:
    from onejob.prove.program.effects import FromCommand, InDatabase, InFile, is_near

    if sum(given is not None for given in (file, sql, command)) != 1:
        raise UsageError(
            "say what counts as an effect, in one way: --effects-file FILE, --effects-sql QUERY, "
            "or --effects-command CMD."
        )
    if file is not None:
        if Path(file).is_absolute():
            raise UsageError(
                f"--effects-file {file} is outside of the copies that plays run in. Give a path "
                "in this folder, and have the program write there."
            )
        return InFile(file)
    if command is not None:
        return FromCommand(command)
    assert sql is not None
    if url is None:
        raise UsageError("--effects-sql needs --url, the database in which it is asked.")
    if not is_near(url) and not disposable:
        raise UsageError(
            "that database is not on this machine, and this kills and doubles real work. Take one "
            "here; or, where it holds nothing that matters, add --target-is-disposable."
        )
    return InDatabase(url, sql)


def _job(program: tuple[str, ...]) -> tuple[str, str] | None:
    """Return MODULE:APP and JOB, where that is meant, checked: both are there."""
    if len(program) != 2 or not _SPEC.fullmatch(program[0]):
        return None
    from onejob.cli.prove_job import STORE

    spec, job = program
    app = Invocation(url=STORE).named(spec)
    if job not in app.jobs:
        raise UsageError(f"{spec} has no job {job!r}. It has: {', '.join(sorted(app.jobs))}.")
    return spec, job


def _json(arguments: str) -> str:
    try:
        found = json.loads(arguments)
    except ValueError as error:
        raise UsageError(f"--args is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise UsageError("--args must be a JSON object of arguments by name: '{\"image_id\": 7}'.")
    return arguments


def _plan(path: Path) -> Plan:
    from onejob.prove.program.faults import Plan

    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--replay {path}: {error}. Give the file that --save wrote.") from error
    plan = written.get("plan") if isinstance(written, dict) else None
    if plan is None:
        raise UsageError(f"--replay {path}: nothing was broken in that report.")
    return Plan.read(plan)


@contextmanager
def _bar() -> Iterator[Callable[[float, str], None]]:
    """Show the share of the budget that is gone, on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda share, played: None
        return
    columns = (BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("without a fault", total=1.0)
        yield lambda share, played: progress.update(task, completed=share, description=played)
