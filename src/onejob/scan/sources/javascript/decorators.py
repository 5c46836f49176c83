"""Schedules of NestJS: decorators over the methods of a class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan.facts import Trigger
from onejob.scan.sources.javascript import times
from onejob.scan.sources.javascript.guards import guards_in, limits
from onejob.scan.sources.javascript.libraries import drawn
from onejob.scan.sources.javascript.script import Script, arguments, called, entries
from onejob.scan.syntax import children, enclosing, line, nodes

if TYPE_CHECKING:
    from ast_grep_py import SgNode


def find(script: Script) -> Iterator[tuple[Trigger, SgNode]]:
    """Return the schedules of this file that are decorators, each with its node."""
    for node in nodes(script.root, "decorator"):
        for trigger in _decorated(script, node):
            yield trigger, node


def _decorated(script: Script, node: SgNode) -> Iterator[Trigger]:
    call = next(iter(children(node, "call_expression")), None)
    if call is None:
        return
    name = called(call)
    package = script.imports.get(name, ("", ""))[0]
    given = arguments(call)
    if name == "Cron" and given:
        schedule = times.expression(script, given[0])
        chance = drawn(script, given[0], call)
    elif name == "Interval" and given and package.startswith("@nestjs/"):
        schedule, chance = times.milliseconds(script, given[-1]), ()
    else:
        return
    method = node.next()
    for _ in range(20):
        if method is None or method.kind() == "method_definition":
            break
        method = method.next()
    if method is None:
        method = enclosing(node, "method_definition")
    owner = enclosing(node, "class_declaration", "class")
    named = method.field("name") if method is not None else None
    label = named.text() if named is not None else ""
    title = owner.field("name") if owner is not None else None
    options = given[1] if len(given) > 1 else None
    yield Trigger(
        kind="nestjs-schedule",
        path=script.path,
        line=line(node),
        language=script.language,
        name=script.text(entries(script.value(options)).get("name")) or label,
        schedule=schedule,
        target=f"{title.text()}.{label}" if title is not None else label,
        marks=_marks(node),
        guards=(
            *chance,
            *limits(script, options),
            *(guards_in(script, method) if method is not None else ()),
        ),
        confidence="high" if package.startswith("@nestjs/") else "medium",
    )


def _marks(node: SgNode) -> tuple[str, ...]:
    found = []
    for step in (node.next, node.prev):
        each = step()
        for _ in range(10):
            if each is None or each.kind() not in ("decorator", "comment"):
                break
            if each.kind() == "decorator":
                found.append(re.split(r"[(\s]", each.text().lstrip("@"))[0])
            each = each.next() if step == node.next else each.prev()
    return tuple(found)
