"""``python -m benchmarks [NAME …]``: see docs/benchmarks.md."""

from __future__ import annotations

import os
import secrets
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click
from rich.console import Console

# Servers are found, or started and ended, as they are for the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from benchmarks import report, rounds
from benchmarks.field import Context
from benchmarks.places import Places, described
from benchmarks.sizes import DEFAULT, FULL, TINY
from servers import POSTGRES, Running

#: Of a table in a file.
WIDTH = 140

NAMES = (
    *("start", "enqueue", "drain", "pickup", "fenced", "takeover", "idle", "memory", "ticks"),
    *("effects", "inbox"),
    "arithmetic",
    "guard",
    *("locks", "redis_locks", "contention", "renewals"),
    "schedules",
)


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, type=click.Choice(NAMES))
@click.option("--rounds", "number", default=3, show_default=True, help="Measure so many times.")
@click.option("--full", is_flag=True, help="The sizes for a record: 50,000 runs a drain.")
@click.option("--tiny", is_flag=True, help="Only see that it runs; the figures mean nothing.")
@click.option("--peers/--no-peers", default=True, help="Install and measure others beside us.")
@click.option("--only", default="", metavar="TEXT", help="Only lines that have this in them.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines in place of tables.")
def command(
    names: tuple[str, ...],
    number: int,
    full: bool,
    tiny: bool,
    peers: bool,
    only: str,
    as_json: bool,
) -> None:
    """Measure onejob beside its peers and beside plain loops: all, or the NAMEd ones.

    Tables (or JSON lines) go to stdout, progress to stderr. Exit 1: something of ours failed.
    """
    remarks = Console(stderr=True, highlight=False)
    sizes = TINY if tiny else FULL if full else DEFAULT
    session = f"onejob_bench_{secrets.token_hex(4)}"
    failed = False
    try:
        server = _server(session, remarks)
        context = Context(Places(server, session), sizes, peers=peers)
        for name in names or NAMES:
            remarks.print(f"[bold]{name}[/bold]")
            began = time.monotonic()
            table = import_module(f"benchmarks.{name}").table(context)
            table = replace(table, entries=[e for e in table.entries if only in e.label])
            measured = rounds.run(table, number, lambda text: remarks.print(text, markup=False))
            _show(name, table, measured, as_json=as_json)
            failed = failed or any(m.ours and m.failures for m in measured)
            remarks.print(f"  {time.monotonic() - began:.0f} s", style="dim")
    finally:
        POSTGRES.stop()
    sys.exit(1 if failed else 0)


def _server(session: str, remarks: Console) -> str | None:
    match POSTGRES.start(session=session):
        case Running(url=url, origin=origin):
            about = described(url)
            remarks.print(f"{about} ({origin}); {os.cpu_count()} cores, load {_load()}")
            if "fsync off" in about or "synchronous_commit off" in about:
                remarks.print(
                    "This server's commits are not durable: these figures are no record. "
                    "Name another with ONEJOB_TEST_POSTGRES=postgresql://…",
                    style="red",
                )
            return url
        case absent:
            remarks.print(f"no PostgreSQL: {'; '.join(absent.tried)}")
            return None


def _load() -> str:
    return " ".join(f"{load:.1f}" for load in os.getloadavg())


def _show(
    name: str, table: rounds.Table, measured: list[rounds.Measured], *, as_json: bool
) -> None:
    if as_json:
        for line in report.lines(name, table, measured):
            print(line, flush=True)
    else:
        title = (import_module(f"benchmarks.{name}").__doc__ or name).splitlines()[0]
        console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
        console.print(report.grid(title, table, measured))


if __name__ == "__main__":
    command()
