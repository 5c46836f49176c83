"""``onejob demo pause``: a lease that is shorter than the pause of its holder."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Literal

import click

from onejob.cli.failure import FINDINGS
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import document, remark

#: Where a store of that kind is looked for when no URL is given: on this machine.
NEAR = {
    "postgres": "postgresql://postgres@127.0.0.1:5432/postgres",
    "redis": "redis://127.0.0.1:6379/0",
}
_DIALECTS = {"postgres": "postgresql", "redis": "redis", "sqlite": "sqlite"}


@click.command("pause")
@click.option("--store", type=click.Choice(["sqlite", "postgres", "redis"]), help="Of which kind.")
@click.option("--ttl", default="3s", show_default=True, help="How long the lease is.")
@click.option("--pause", default="4s", show_default=True, help="How long its holder stands still.")
@click.option(
    "--stall",
    type=click.Choice(["freeze", "network"]),
    default="freeze",
    show_default=True,
    help="The process stands still (SIGSTOP), or its network does.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write one page with timelines."
)
@store_options
@click.pass_context
def command(
    ctx: click.Context,
    invocation: Invocation,
    store: str | None,
    ttl: str,
    pause: str,
    stall: Literal["freeze", "network"],
    html: Path | None,
) -> None:
    """See what happens when a lock's holder stands still for longer than its lease.

    Five ways to guard one write: a bare lock, a token compared only at the write, PostgreSQL's
    advisory lock, a fenced lease, and a lease with a ledger. With --ttl 30s --pause 40s it is the
    original question. Exits 1 if a late write of onejob's own ways lands.
    """
    from onejob.core.time import SECOND, duration
    from onejob.demo.pause.outcome import held, verdict
    from onejob.demo.pause.plan import PausePlan
    from onejob.demo.pause.play import play
    from onejob.demo.pause.show import page, show

    if html is not None and not html.parent.is_dir():
        raise click.BadParameter(f"there is no folder {html.parent}", param_hint="--html")
    with tempfile.TemporaryDirectory(prefix="onejob-demo-") as directory:
        plan = PausePlan(
            url=_url(invocation.url, store, directory),
            ttl=duration(ttl, what="--ttl"),
            pause=duration(pause, what="--pause"),
            stall=stall,
        )
        plan.check()
        spans = f"a lease of {plan.ttl / SECOND:g} s, a pause of {plan.pause / SECOND:g} s"
        remark(f"{plan.dialect}: {len(plan.ways)} ways, {spans} each.")
        results = play(
            plan,
            began=lambda way: remark(f"  {way} …"),
            ended=lambda result: remark(
                f"  {result.name}: {result.landed} landed, {result.late} of them late"
            ),
        )
    if html is not None:
        html.write_text(page(results), encoding="utf-8")
    if invocation.as_json:
        document({"acts": [result.as_json() for result in results], "verdict": verdict(results)})
    else:
        show(results)
    if html is not None:
        remark(f"Timelines: {html}")
    sys.stdout.flush()
    if not held(results):
        ctx.exit(FINDINGS)


def _url(given: str | None, store: str | None, directory: str) -> str:
    """Return the URL to play on: the one given, if it is of the kind asked for."""
    from onejob.url import parse

    if given and (store is None or parse(given).dialect == _DIALECTS[store]):
        return given
    if store in NEAR:
        return NEAR[store]
    return f"sqlite:///{directory}/pause.db"
