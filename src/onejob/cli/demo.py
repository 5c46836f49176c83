"""``onejob demo``: one night's email, sent in four ways."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import click

from onejob.cli.failure import FINDINGS
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import document, remark


class Demo(click.Group):
    """The demo itself, and the exercise under it, imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return what stands under it."""
        return ["pause"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the exercise."""
        if cmd_name != "pause":
            return None
        from onejob.cli.demo_pause import command

        return command


@click.group("demo", cls=Demo, invoke_without_command=True)
@click.option("--replicas", type=click.IntRange(1, 32), default=3, show_default=True)
@click.option("--customers", type=click.IntRange(10, 10_000), default=200, show_default=True)
@click.option("--seed", type=int, help="Choose the points of fault again as in an earlier demo.")
@click.option("--no-faults", is_flag=True, help="Kill and freeze nobody.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write one page with timelines."
)
@store_options
@click.pass_context
def command(
    ctx: click.Context,
    invocation: Invocation,
    replicas: int,
    customers: int,
    seed: int | None,
    no_faults: bool,
    html: Path | None,
) -> None:
    """Watch three replicas send one night's email: four ways, real processes.

    naive: each replica has a timer. naive-restart: a worker dies and does its job again.
    lock-only: a lock in the database whose holder stands still. onejob: one replica killed and one
    frozen, and each customer gets one email.

    Runs on SQLite files of its own; with --url in a schema of its own there. Both are removed
    again. Exits 1 if onejob sends a duplicate or misses a customer.
    """
    if ctx.invoked_subcommand is not None:
        return
    from onejob.demo.demo import Plan, play
    from onejob.demo.live import Live
    from onejob.demo.page import page
    from onejob.demo.result import verdict
    from onejob.demo.table import show

    plan = Plan(
        replicas=replicas,
        customers=customers,
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
        faults=not no_faults,
        url=invocation.url or "",
    )
    if html is not None and not html.parent.is_dir():
        raise click.BadParameter(f"there is no folder {html.parent}", param_hint="--html")
    with Live(sys.stderr) as live:
        results = play(plan, began=live.began, ended=live.ended)
    if html is not None:
        html.write_text(page(results, seed=plan.seed, faults=plan.faults), encoding="utf-8")
    if invocation.as_json:
        acts = [result.as_json() for result in results]
        document({"acts": acts, "verdict": verdict(results), "seed": plan.seed})
    else:
        show(results, seed=plan.seed)
    if html is not None:
        remark(f"Timelines: {html}")
    if not results[-1].once:
        ctx.exit(FINDINGS)
