"""``onejob scan``: every place in a repository where a job is triggered."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onejob.cli.failure import FINDINGS
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import remark
from onejob.cli.text import clean
from onejob.core.time import instant
from onejob.errors import UsageError

if TYPE_CHECKING:
    from onejob.scan.engine import Options, Scan

FORMATS = ("text", "json", "sarif", "markdown", "html")
NOTES_SHOWN_MAX = 5
#: The bar appears when this many files are not done within a blink; small trees need none.
BAR_FILES_MIN = 300


@click.command("scan")
@click.argument("path", default=".", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), help="How to print it.  [text]")
@click.option("--fail-on", metavar="VERDICT", help="Exit 1 from this verdict up.  [unguarded]")
@click.option("--baseline", type=click.Path(path_type=Path), help="Leave out what FILE knows.")
@click.option("--write-baseline", type=click.Path(path_type=Path), help="Write FILE and exit 0.")
@click.option("--only", multiple=True, metavar="RULE", help="This rule alone; may be repeated.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Pass over paths; may be repeated.")
@click.option("--explain", metavar="RULE", help="Print a rule's page; `all` lists the rules.")
@click.option("--show-code", is_flag=True, help="Show the lines, their texts blacked out.")
@store_options
def command(
    invocation: Invocation,
    path: Path,
    form: str | None,
    fail_on: str | None,
    baseline: Path | None,
    write_baseline: Path | None,
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    explain: str | None,
    show_code: bool,
) -> None:
    """Find every place under PATH where a job is triggered, what multiplies it, what guards it.

    Nothing under PATH is executed or imported. Exit: 0 fine, 1 something at or above --fail-on (a
    verdict's name, or `none`), 2 the call cannot be right.
    """
    _parsers()
    from onejob.scan.configuration import any_failing, configured, failing
    from onejob.scan.engine import Options
    from onejob.scan.registry import rule_named
    from onejob.scan.suppress import new_ones, read_baseline
    from onejob.scan.suppress import write_baseline as write

    if explain:
        _explain(explain)
        return
    if not path.exists():
        raise UsageError(f"there is nothing at {path}. Give a directory or a file.")
    directory = path if path.is_dir() else path.parent
    house = configured(directory)
    bad = failing(fail_on or house.fail_on)
    known_file = baseline or ((directory / house.baseline) if house.baseline else None)
    known = read_baseline(known_file) if known_file and not write_baseline else None
    options = Options(
        exclude=(*house.exclude, *exclude),
        only=tuple(rule_named(each).code for each in only or house.only),
        house_guards=house.guards,
    )
    scan = scanned(path, options)
    if write_baseline:
        count = write(write_baseline, scan.findings)
        remark(f"wrote {count} findings to {write_baseline}")
        return
    if known is not None:
        scan = replace(scan, findings=tuple(new_ones(scan.findings, known)))
    show(scan, form or ("json" if invocation.as_json else "text"), path if show_code else None)
    if any_failing(scan.findings, bad):
        click.get_current_context().exit(FINDINGS)


def _parsers() -> None:
    for name in ("ast_grep_py", "yaml"):
        try:
            import_module(name)
        except ImportError as error:
            raise UsageError(
                f"the scanner's parsers are not installed ({name}). Run: pip install 'onejob[scan]'"
            ) from error


def _explain(name: str) -> None:
    from onejob.scan.registry import all_rules, rule_named

    if name == "all":
        for rule in all_rules():
            click.echo(f"{rule.code}  {rule.name}")
        return
    click.echo(rule_named(name).page)


def scanned(path: Path, options: Options) -> Scan:
    """Scan, with a bar on stderr where a person waits for it."""
    from onejob.scan.engine import scan

    with _bar() as advance:
        return scan(path, options, advance)


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("scanning"), BarColumn(), MofNCompleteColumn(), TextColumn("files"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None, visible=False)

        def advance(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, visible=total >= BAR_FILES_MIN)

        yield advance


def show(scan: Scan, form: str, code_root: Path | None) -> None:
    """Print a scan in one of the forms; notes go to stderr."""
    from onejob.scan.reports import as_html, as_json, as_markdown, as_sarif, table

    match form:
        case "json":
            click.echo(as_json.report(scan, instant(datetime.now(UTC), what="now")))
        case "sarif":
            click.echo(as_sarif.report(scan))
        case "markdown":
            click.echo(as_markdown.report(scan))
        case "html":
            click.echo(as_html.report(scan))
        case _:
            for line, style in table.lines(scan, code_root):
                _styled(line, style)
    if form == "text":
        for note in scan.notes[:NOTES_SHOWN_MAX]:
            place = f"{note.path}:{note.line}" if note.line else note.path
            remark(f"note: {place}: {note.text}")
        if len(scan.notes) > NOTES_SHOWN_MAX:
            remark(f"note: and {len(scan.notes) - NOTES_SHOWN_MAX} more; --format json has all")


def _styled(line: str, style: str) -> None:
    words = style.split()
    colour = next((word for word in words if word in ("red", "green", "yellow")), None)
    bold, dim = "bold" in words, "dim" in words
    text = clean(line)
    click.echo(click.style(text, fg=colour, bold=bold, dim=dim) if style else text)
