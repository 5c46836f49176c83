"""``onejob doctor``: look at everything that can be wrong, and say what to do about it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from onejob.cli import checks, guarded, mariadb_checks, redis_checks
from onejob.cli.checks import Check
from onejob.cli.effects import LISTED_MAX
from onejob.cli.failure import FINDINGS
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import document, remark, table
from onejob.cli.schedules import every_schedule
from onejob.cli.text import span
from onejob.commands import claims, health, views
from onejob.core.time import Span
from onejob.errors import StoreError
from onejob.stores.migrate import latest

if TYPE_CHECKING:
    from onejob.app import App
    from onejob.cli.invocation import AnyStore
    from onejob.stores.protocol import Store

#: The clock is asked this often; the quickest answer says most.
CLOCK_LOOKS = 5

#: A reply that came sooner is not measured any closer.
MILLISECOND = Span(1_000)


@click.command("doctor")
@store_options
@click.pass_context
def command(ctx: click.Context, invocation: Invocation) -> None:
    """Check connection, schema, clock, replicas, runs, schedules and effects.

    Exits 1 when a check fails.
    """
    found = _examine(invocation)
    if invocation.as_json:
        listed = [
            {"name": check.name, "ok": check.ok, "look": check.look, "detail": check.detail}
            for check in found
        ]
        document({"checks": listed})
    else:
        table(
            ("CHECK", "", "FOUND"),
            [(check.name, _state(check), check.detail) for check in found],
            whole=True,
        )
    failed = sum(1 for check in found if not check.ok)
    if failed:
        remark(f"{failed} of {len(found)} checks failed.")
        ctx.exit(FINDINGS)


def _examine(invocation: Invocation) -> list[Check]:
    """Make every check that the ones before it leave room for."""
    try:
        with invocation.opened() as app:
            # After the module of ONEJOB_APP was imported: that is no fault of the store's.
            app.store.close()
            began = time.monotonic_ns()
            app.check()
            took = Span((time.monotonic_ns() - began) // 1_000)
            if app.store.dialect == "redis":
                return _of_redis(app, took)
            if app.store.dialect == "mariadb":
                return _of_mariadb(app, took)
            store: AnyStore = app.store  # type: ignore[assignment]  # memory:// was refused
            return [_connection(store, took), _schema(store), *_contents(app, store)]
    except StoreError as error:
        return [
            Check(
                "connection" if error.code == "store_unavailable" else "schema", False, str(error)
            )
        ]


def _of_redis(app: App, took: Span) -> list[Check]:
    """There are no tables, replicas or runs to look at; what the server keeps matters instead."""
    from onejob.stores.redis import RedisStore

    store = app.store
    assert isinstance(store, RedisStore), "its dialect says so"
    told = store.durability()
    return [
        _connection(store, took),
        checks.clock(*_clock(store)),
        redis_checks.persistence(told),
        redis_checks.eviction(told),
        redis_checks.replication(told),
    ]


def _of_mariadb(app: App, took: Span) -> list[Check]:
    """There are no replicas or runs to look at; what the server keeps, and how, matters instead."""
    from onejob.stores.mariadb import MariadbStore

    store = app.store
    assert isinstance(store, MariadbStore), "its dialect says so"
    told = store.settings(*mariadb_checks.ASKED)
    return [
        _connection(store, took),
        Check("schema", True, f"{store.catalogue.schema}, at version {latest(store.catalogue)}"),
        checks.keys(store.run(health.keys()), health.KEYS_OF_LOCKS),
        checks.clock(*_clock(store)),
        mariadb_checks.release(told),
        mariadb_checks.durability(told),
        mariadb_checks.writing(told),
        mariadb_checks.replication(told),
    ]


def _connection(store: Store, took: Span) -> Check:
    shown = span(took) if took >= MILLISECOND else "less than 1ms"
    return Check("connection", True, f"{store.where} in {shown}")


def _schema(store: AnyStore) -> Check:
    name = store.catalogue.schema
    return Check("schema", True, f"{name}, at version {latest(store.catalogue)}")


def _contents(app: App, store: AnyStore) -> list[Check]:
    jobs = store.run(views.jobs())
    return [
        checks.keys(store.run(health.keys()), health.KEYS),
        checks.clock(*_clock(store)),
        checks.replicas(store.run(views.replicas()), jobs),
        checks.parked(jobs),
        checks.unknown(jobs),
        checks.late(store.run(views.late_runs())),
        checks.schedules(every_schedule(store.run)),
        # What `onejob effects` lists: claims of callers that are gone too, none under way.
        checks.effects(app.effects.unknown(limit=LISTED_MAX), most=LISTED_MAX),
        checks.ticks(
            store.run(claims.listed(claims.TICK, lapsed=True, limit=LISTED_MAX)),
            schedules=len(guarded.known(store)),
        ),
        checks.periods(store.run(claims.listed(claims.PERIOD, lapsed=True, limit=LISTED_MAX))),
        checks.durability(store.run(health.settings())),
        *_of_postgresql(store),
    ]


def _of_postgresql(store: AnyStore) -> list[Check]:
    """Look at what only a server has: other sessions, and somebody in between."""
    if store.dialect != "postgresql":
        return []
    return [
        checks.transactions(store.run(health.oldest_transaction())),
        checks.pooler(bool(getattr(store, "pooled", False))),
    ]


def _clock(store: Store) -> tuple[Span, Span]:
    """Measure how far the store's clock is ahead of this machine's, and how sure that is."""
    best: tuple[int, int] | None = None
    for _ in range(CLOCK_LOOKS):
        before = time.time_ns() // 1_000
        there = store.run(views.clock())
        after = time.time_ns() // 1_000
        look = ((after - before + 1) // 2, there - (before + after) // 2)
        best = look if best is None else min(best, look)
    assert best is not None, "the clock was asked"
    return Span(best[1]), Span(best[0])


def _state(check: Check) -> str:
    if not check.ok:
        return "failed"
    return "look" if check.look else "ok"
