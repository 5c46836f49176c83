"""JavaScript and TypeScript, by the grammars inside ast-grep.

A file without a word of any scheduler, timer or lock is not parsed. Functions that guard are stated
by name, so that a schedule in another file finds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from onejob.scan.facts import Fact, Function
from onejob.scan.reading import SourceFile
from onejob.scan.sources.javascript import (
    decorators,
    launches,
    libraries,
    own,
    smells,
    tables,
    timers,
)
from onejob.scan.sources.javascript.guards import guards_in
from onejob.scan.sources.javascript.script import Script, called
from onejob.scan.sources.javascript.script import read as parsed
from onejob.scan.syntax import line, nodes

PATTERNS = ("*.js", "*.mjs", "*.cjs", "*.jsx", "*.ts", "*.mts", "*.cts", "*.tsx", "#!node")

_TRIGGERS = re.compile(
    r"cron|[sS]chedul|agenda|repeat\b|setInterval|setTimeout|@Interval|while\s*\(|for\s*\(;;"
    r"|instances\b|cluster|receiveMessage|ReceiveMessage"
)
_GUARDS = re.compile(
    r"[lL]ock|SKIP LOCKED|\bNX\b|setnx|rowCount|affectedRows|modifiedCount|[lL]eader"
)
_SCREEN = (".jsx", ".tsx")


def read(file: SourceFile) -> Iterable[Fact]:
    """State what a script triggers, launches and guards."""
    if file.path.lower().endswith(_SCREEN) and "cron" not in file.text.lower():
        return
    triggers, guards = _TRIGGERS.search(file.text), _GUARDS.search(file.text)
    smelly = smells.WORDS.search(file.text)
    if not triggers and not guards and not smelly:
        return
    script = parsed(file)
    if triggers:
        found = (*libraries.find(script), *decorators.find(script), *timers.find(script))
        for trigger, node in found:
            wrapped = own.wrapper_around(script, trigger, node)
            yield from (wrapped,) if wrapped else tables.unrolled(script, trigger, node)
        yield from launches.find(script)
        yield from own.uses(script)
    if guards:
        yield from _functions(script)
    if smelly:
        yield from smells.find(script)


def _functions(script: Script) -> Iterator[Function]:
    stem = script.path.rpartition(".")[0].replace("/", ".")
    for name, node in script.functions.items():
        if not _GUARDS.search(node.text()):
            continue
        guards = guards_in(script, node)
        if guards:
            calls = tuple(
                dict.fromkeys(
                    each for c in nodes(node, "call_expression") if len(each := called(c)) < 80
                )
            )[:40]
            yield Function(f"{stem}.{name}", script.path, line(node), guards, calls)
