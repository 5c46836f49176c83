"""Messages from RabbitMQ, each handled in a transaction, beside a consumer that marks nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

from benchmarks.contenders import CALL_SECONDS, ROOT
from benchmarks.field import Context
from benchmarks.rounds import Column, Entry, Failed, Figures, Skipped, Table
from servers import RABBITMQ, Running

COLUMNS = (Column("rate", "messages a second"),)
BARE = "aio-pika, an INSERT, a commit, an ack"


def table(context: Context) -> Table:
    """Measure both at the same prefetch, on PostgreSQL."""
    if not context.places.server:
        return Table(COLUMNS, [Skipped("PostgreSQL", "no server")])
    match RABBITMQ.start(session="onejob_bench"):
        case Running(url=broker):
            pass
        case _:
            return Table(COLUMNS, [Skipped("RabbitMQ", "no server")])
    kinds = (("inbox.first in the loop for RabbitMQ", "ours"), (BARE, "bare"))
    return Table(
        COLUMNS,
        [
            Entry(label, partial(_measured, kind, broker, context), ours=kind == "ours")
            for label, kind in kinds
        ],
        against=BARE,
    )


def _measured(kind: str, broker: str, context: Context) -> Figures:
    with context.places.postgres() as place:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.drivers.inbox"),
                *(kind, broker, place.url, str(context.sizes.fenced * 4)),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            check=False,
        )
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
