"""Messages from RabbitMQ, each handled in a transaction, beside a consumer that marks nothing."""

from __future__ import annotations

from functools import partial

from benchmarks.contenders import called
from benchmarks.field import Context
from benchmarks.rounds import Column, Entry, Figures, Skipped, Table
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
        return called("inbox", kind, broker, place.url, context.sizes.fenced * 4)
