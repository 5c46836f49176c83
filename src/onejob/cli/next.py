"""``onejob next``: when an expression fires, in words, and what clock changes do to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.cli.text import span
from onejob.core.cautions import cautions
from onejob.core.clock_words import ClockChange, clock_changes, explain
from onejob.core.cron import Cron
from onejob.core.every import Every
from onejob.core.time import (
    HOUR,
    SECOND,
    Instant,
    Span,
    duration,
    in_zone,
    instant,
    read_instant,
    text,
    zone,
)
from onejob.core.timing import Timing
from onejob.errors import UsageError

#: Most fire times shown at once.
COUNT_MAX = 10_000
#: Fire times shown around one clock change, the nearest.
AROUND_MAX = 12


@click.command("next")
@click.argument("expression", metavar="EXPR", nargs=-1, required=True)
@click.option(
    "--tz", metavar="ZONE", help="Its time zone, such as Europe/Berlin. UTC if not given."
)
@click.option("-n", "count", default=10, show_default=True, help="How many fire times.")
@click.option("--from", "start", metavar="TIME", help="After this instant. Now if not given.")
@click.option("--explain", "explained", is_flag=True, help="Say in words what it does.")
@click.option("--around-dst", "around", is_flag=True, help="Show the next two clock changes.")
@click.option("--on-gap", metavar="POLICY", help="Times that do not exist: shift (default), skip.")
@click.option("--on-fold", metavar="POLICY", help="That come twice: first (default), second, both.")
@click.option("--anchor", metavar="TIME", help="Where the grid of an interval stands.")
@store_options
def command(
    invocation: Invocation,
    expression: tuple[str, ...],
    count: int,
    tz: str | None,
    start: str | None,
    explained: bool,
    around: bool,
    **policies: str | None,
) -> None:
    """Show when EXPR fires next: a cron expression such as '0 2 * * *', or an interval: 5m.

    Nothing is read from a store. Five fields (minute hour day month weekday), or six with seconds
    first, or @hourly, @daily, @weekly, @monthly, @yearly.
    """
    local = zone(tz, "--tz")
    timing = _timing(expression, tz=local, **policies)
    after = read_instant(start, "--from") if start else instant(datetime.now(UTC), what="now")
    if not 1 <= count <= COUNT_MAX:
        raise UsageError(f"-n {count}: ask for 1 to {COUNT_MAX:,} fire times.")
    changes = clock_changes(timing, after) if around and isinstance(timing, Cron) else []
    if invocation.as_json:
        more = {"changes": [_change(timing, change) for change in changes]} if around else {}
        document({**_as_json(timing, after, count), **more})
        return
    if explained:
        data(explain(timing, after) + ".")
    _show(local, after, _fire_times(timing, after, count), "AFTER" if start else "IN")
    for change in changes:
        data("")
        data(change.says + ".")
        _show(local, change.at, _around(timing, change), "FROM THE CHANGE")
    if around and not changes:
        remark("No clock change lies ahead that could touch it.")
    for caution in cautions(timing, after):
        remark(f"Note: {caution}")


def _timing(
    words: tuple[str, ...],
    *,
    tz: ZoneInfo,
    on_gap: str | None,
    on_fold: str | None,
    anchor: str | None,
) -> Timing:
    said = " ".join(words)
    if len(words) not in (1, 5, 6):
        raise UsageError(
            f"{len(words)} words are no expression. Where it has a *, put it in quotes, or the "
            "shell puts file names in its place: onejob next '0 2 * * *'"
        )
    if said[:1].isdecimal() and len(said.split()) < 5 and (said[-1:].isalpha() or " " not in said):
        if on_gap is not None or on_fold is not None:
            raise UsageError(
                f"the interval {said!r} runs in real elapsed time: --on-gap and --on-fold are for "
                "cron expressions. Leave them out."
            )
        at = read_instant(anchor, "--anchor") if anchor else Instant(0)
        return Every(duration(said, what="interval", least=Span(SECOND)), at)
    if anchor is not None:
        raise UsageError("--anchor is for an interval such as 5m; a cron expression has none.")
    policies: dict[str, Any] = {"on_gap": on_gap or "shift", "on_fold": on_fold or "first"}
    return Cron.parse(said, tz, **policies)


def _fire_times(timing: Timing, after: Instant, count: int) -> list[Instant]:
    found: list[Instant] = []
    at = timing.after(after)
    while at is not None and len(found) < count:
        found.append(at)
        at = timing.after(at)
    return found


def _around(timing: Timing, change: ClockChange) -> list[Instant]:
    """Return the fire times near a clock change, and of rare ones at least its neighbours."""
    reach = abs(change.moved) + HOUR
    before = timing.due(Instant(change.at - reach), Instant(change.at - 1), keep=AROUND_MAX).newest
    if not before:
        before = timing.due(Instant(0), Instant(change.at - 1), keep=1).newest
    behind = _fire_times(timing, Instant(change.at - 1), AROUND_MAX)
    near = [at for at in behind if at <= change.at + reach]
    return [*before[-AROUND_MAX // 2 :], *(near[: AROUND_MAX // 2] or behind[:1])]


def _show(local: ZoneInfo, start: Instant, found: list[Instant], distance: str) -> None:
    if not found:
        data("never")
        return
    rows = [(_shown(at, local), text(at), _distance(Span(at - start), distance)) for at in found]
    if local.key == "UTC":
        table(("UTC", distance), [(shown, away) for shown, _, away in rows])
    else:
        table((local.key, "UTC", distance), rows)


def _shown(at: Instant, local: ZoneInfo) -> str:
    when = in_zone(at, local)
    seconds = f"{when:%H:%M:%S}" if when.second else f"{when:%H:%M}"
    return f"{when:%a %Y-%m-%d} {seconds} {when.tzname()}"


def _distance(away: Span, heading: str) -> str:
    if heading == "IN":
        return f"in {span(away)}"
    return f"{'+' if away >= 0 else ''}{span(away)}"


def _as_json(timing: Timing, after: Instant, count: int) -> dict[str, object]:
    return {
        "fire_times": [text(at) for at in _fire_times(timing, after, count)],
        "explained": explain(timing, after),
        "warnings": cautions(timing, after),
    }


def _change(timing: Timing, change: ClockChange) -> dict[str, object]:
    return {
        "at": text(change.at),
        "moved_seconds": change.moved // SECOND,
        "explained": change.says,
        "fire_times": [text(at) for at in _around(timing, change)],
    }
