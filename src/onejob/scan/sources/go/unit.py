"""Go files as imports, functions and calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from onejob.scan.bodies import without_comments
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import CHARACTERS_MAX, cron, every
from onejob.scan.syntax import children, enclosing, line, literal, name_of, nodes, parse

if TYPE_CHECKING:
    from ast_grep_py import SgNode

FUNCTIONS = ("function_declaration", "method_declaration")
_UNITS = {
    "Nanosecond": 1e-9,
    "Microsecond": 1e-6,
    "Millisecond": 0.001,
    "Second": 1.0,
    "Minute": 60.0,
    "Hour": 3_600.0,
}
_SHORT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}


@dataclass(frozen=True, slots=True)
class Call:
    """``receiver.name(arguments)``."""

    name: str
    receiver: str
    arguments: tuple[SgNode, ...]
    line: int
    node: SgNode

    def text(self, position: int) -> str:
        """Return an argument as it is written; "" where there is none."""
        return self.arguments[position].text() if position < len(self.arguments) else ""


class Unit:
    """One parsed file."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.root = parse(file.text, "go")

    @cached_property
    def imports(self) -> dict[str, str]:
        """Return the imported paths by the names that the file uses."""
        found = {}
        for spec in nodes(self.root, "import_spec"):
            path = literal(spec.field("path").text()) if spec.field("path") else ""  # type: ignore[union-attr]
            name = name_of(spec) or re.sub(r"^go-|/v\d+$", "", path).rpartition("/")[2]
            found[name] = path
        return found

    def uses(self, *parts: str) -> bool:
        """Decide whether an imported path has one of these parts."""
        return any(part in path for path in self.imports.values() for part in parts)

    @cached_property
    def calls(self) -> list[Call]:
        """Return every call, in order."""
        return [_call(node) for node in nodes(self.root, "call_expression")]

    def functions(self) -> Iterator[tuple[str, int, str]]:
        """Return (name, line of the body, body without comments) of every function."""
        for node in nodes(self.root, *FUNCTIONS):
            body = node.field("body")
            if body is not None:
                yield name_of(node), line(body), without_comments(body.text())

    def function_of(self, node: SgNode) -> SgNode | None:
        """Return the function or literal that a node stands in."""
        return enclosing(node, *FUNCTIONS, "func_literal")

    def names_around(self, node: SgNode) -> tuple[str, str]:
        """Return the name of the declared function around a node, and of its receiver's type."""
        found = enclosing(node, *FUNCTIONS)
        if found is None:
            return "", ""
        receiver = found.field("receiver")
        kind = (
            re.search(r"\*?\s*([A-Za-z_]\w*)\s*(?:\[.*\])?\)$", receiver.text())
            if receiver
            else None
        )
        return name_of(found), kind[1] if kind else ""

    @cached_property
    def started(self) -> frozenset[str]:
        """Return the names of functions that a ``go`` statement of this file starts."""
        found = re.findall(r"\bgo\s+(?:\w+\.)*(\w+)\s*\(", self.file.text)
        return frozenset(found)

    def constant(self, name: str) -> str:
        """Return the expression that the file binds a name to; "" where it does not."""
        last = re.escape(name.rpartition(".")[2])
        match = re.search(rf"(?m)\b{last}\b(?:\s+[\w.]+)?\s*:?=\s*([^=\n].*)$", self.file.text)
        return match[1].strip() if match and last else ""

    def span(self, expression: str, depth: int = 0) -> str:
        """Return ``every 5m`` of a duration; the name it comes from otherwise."""
        plain = " ".join(expression.split())
        unit = re.search(
            r"\btime\.(Nanosecond|Microsecond|Millisecond|Second|Minute|Hour)\b", plain
        )
        if unit:
            rest = re.sub(r"time\.\w+|time\.Duration", "", plain)
            if re.fullmatch(r"[\d\s*().]*", rest):
                product = _UNITS[unit[1]]
                for number in re.findall(r"\d+(?:\.\d+)?", rest):
                    product *= float(number)
                return every(product) if product else ""
            rest = re.sub(r"\btime\.\w+\b|\bDuration\b", " ", plain)
            return _from(rest)
        if depth < 3 and re.fullmatch(r"[\w.]+", plain):
            bound = self.constant(plain)
            if bound and bound != plain and len(bound) < 100:
                found = self.span(bound, depth + 1)
                if found.startswith("every"):
                    return found
        return _from(plain)

    def schedule(self, expression: str) -> str:
        """Return what a cron text says: an expression, ``@every 5m``, ``@daily``."""
        text = literal(expression) or literal(self.constant(expression.strip()))
        interval = re.fullmatch(r"@every\s+((?:\d+(?:\.\d+)?(?:ms|s|m|h))+)", text.strip())
        if interval:
            parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", interval[1])
            return every(sum(float(number) * _SHORT[unit] for number, unit in parts))
        zoned = re.sub(r"^(?:CRON_)?TZ=\S+\s+", "", text.strip())
        return cron(zoned) or (_from(expression) if not text else "")


def _call(node: SgNode) -> Call:
    function = node.field("function")
    arguments = tuple(children(node.field("arguments")))
    if function is None:
        return Call("", "", arguments, line(node), node)
    if function.kind() == "selector_expression":
        operand, name = function.field("operand"), function.field("field")
        return Call(
            name.text() if name else "",
            operand.text() if operand else "",
            arguments,
            line(name) if name else line(node),
            node,
        )
    return Call(function.text(), "", arguments, line(node), node)


def _from(text: str) -> str:
    name = re.search(r"[A-Za-z_][\w.]*", text.replace('"', " "))
    return f"from {name[0]}"[:CHARACTERS_MAX] if name else ""


_QUIET_WORDS = """
    Tick NewTicker Sleep After Stop Reset Done Now Since Err Error Errorf Info Infof Warn Warnf
    Debug Debugf Printf Println Print Fatal Fatalf make len append string int int64 WithTimeout
    Background WithCancel cancel Add Wait Lock Unlock RLock RUnlock Duration NewTimer recover
    Sprintf With Any String Int Inc Observe Seconds WithField WithFields WithError min max Log
"""
#: Calls that say nothing about the work around them.
QUIET = frozenset(_QUIET_WORDS.split())
