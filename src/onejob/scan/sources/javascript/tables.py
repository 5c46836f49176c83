"""Tables of schedules: rows in one place, and a loop that hands each of them to a scheduler.

The rows are what a reader looks for, so each becomes a trigger; the call in the loop is named as
the place that registers them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from onejob.scan import schedules
from onejob.scan.facts import Trigger
from onejob.scan.finding import Related
from onejob.scan.sources.javascript import times
from onejob.scan.sources.javascript.guards import guards_in
from onejob.scan.sources.javascript.script import FUNCTIONS, Script, arguments, called, entries
from onejob.scan.syntax import above, children, line

if TYPE_CHECKING:
    from ast_grep_py import SgNode

ROWS_MAX = 200
_NAMES = ("name", "id", "key", "jobName")
_TIMES = re.compile(r"cron|schedule|interval|pattern|every|expression|time", re.IGNORECASE)
_WORK = re.compile(r"func|fn|handler|callback|task|job|run|execute|ontick", re.IGNORECASE)


def unrolled(script: Script, trigger: Trigger, node: SgNode) -> Iterator[Trigger]:
    """Return a trigger for each row of the table around a call; the trigger itself without one."""
    rows = _rows(script, node) if trigger.schedule.startswith("from ") else []
    rows = [row for row in rows[:ROWS_MAX] if _schedule(script, entries(row))]
    if not rows:
        yield trigger
        return
    register = Related(script.path, trigger.line, "registers it")
    for row in rows:
        cells = entries(row)
        work = next((cells[key] for key in cells if _WORK.search(key)), None)
        function = script.function(work)
        target = work.text() if work is not None and work.kind() == "identifier" else ""
        name = next((script.text(cells[key]) for key in _NAMES if key in cells), "")
        yield replace(
            trigger,
            line=line(row),
            name=(name or target or trigger.name)[:80],
            schedule=_schedule(script, cells),
            target=target or trigger.target,
            guards=(
                *trigger.guards,
                *(guards_in(script, function) if function is not None else ()),
            ),
            related=(*trigger.related, register),
        )


def _schedule(script: Script, cells: dict[str, SgNode]) -> str:
    texts = (schedules.cron(script.text(cell)) for cell in cells.values())
    written = next(filter(None, texts), "")
    if written:
        return written
    period = next((cells[key] for key in cells if _TIMES.search(key)), None)
    found = times.milliseconds(script, period) if period is not None else ""
    return found if found.startswith("every") else ""


def _rows(script: Script, node: SgNode) -> list[SgNode]:
    """Return the rows of the nearest ``for (… of TABLE)`` or ``TABLE.forEach(…)`` around a node."""
    for each in above(node, "for_in_statement", *FUNCTIONS):
        if each.kind() == "for_in_statement":
            return _objects(script, each.field("right"))
        parent = each.parent()
        call = parent.parent() if parent is not None and parent.kind() == "arguments" else None
        if call is None or not called(call).endswith((".forEach", ".map")):
            return []
        callee = call.field("function")
        return _objects(script, callee.field("object") if callee is not None else None)
    return []


def _objects(script: Script, table: SgNode | None) -> list[SgNode]:
    if table is not None and called(table) in ("Object.values", "Object.entries"):
        table = next(iter(arguments(table)), None)
    found = script.value(table)
    if found is None or found.kind() not in ("array", "object"):
        return []
    rows = children(found) if found.kind() == "array" else [*entries(found).values()]
    return [row for row in rows if row.kind() == "object"]
