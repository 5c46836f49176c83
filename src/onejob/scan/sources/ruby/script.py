"""Ruby files as calls with receivers, arguments, options and blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from onejob.scan.bodies import without_comments
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import CHARACTERS_MAX, cron, every
from onejob.scan.syntax import children, enclosing, line, literal, name_of, nodes, parse, shallow

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_UNITS = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0, "week": 604_800.0}
_SHORT = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_BODIES = ("body_statement", "block_body", "then", "else", "do", "program", "if_modifier")
_PLAIN = frozenset(("puts", "loop", "sleep", "new", "presence", "require", "p", "print", "raise"))
_WORDS = {
    ":minute": "every 1m",
    ":hour": "every 1h",
    ":day": "every 1d",
    ":week": "every 1w",
    ":month": "every month",
    ":year": "every year",
    ":reboot": "@reboot",
    ":weekday": "every weekday",
    ":weekend": "every weekend",
}


@dataclass(frozen=True, slots=True)
class Call:
    """``receiver.name(arguments, key: value) { block }``."""

    name: str
    receiver: str
    arguments: tuple[str, ...]
    options: dict[str, str]
    block: str
    """The block's text without comments; "" where there is none."""
    block_line: int
    line: int
    node: SgNode

    def option(self, *names: str) -> str:
        """Return the first of these options that is given, as it is written."""
        return next((self.options[name] for name in names if name in self.options), "")


class Script:
    """One parsed file."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.root = parse(file.text, "ruby")

    @cached_property
    def calls(self) -> list[Call]:
        """Return every call, in order."""
        return [_call(node) for node in shallow(nodes(self.root, "call"), "ruby")]

    def methods(self) -> Iterator[tuple[str, int, str, tuple[str, ...]]]:
        """Return (name, line, body without comments, what it calls) of every method."""
        for node in nodes(self.root, "method", "singleton_method"):
            body = children(node, "body_statement")
            text = without_comments(body[0].text(), "#") if body else ""
            calls = called(body[0]) if body else ()
            yield name_of(node), line(body[0]) if body else line(node), text, calls

    def owner(self, node: SgNode) -> str:
        """Return the name of the class or module around a node."""
        return name_of(enclosing(node, "class", "module"))

    def superclass(self, node: SgNode) -> str:
        """Return what the class around a node inherits from."""
        found = enclosing(node, "class")
        above = found.field("superclass") if found is not None else None
        return above.text().lstrip("< ") if above is not None else ""

    def method_of(self, node: SgNode) -> str:
        """Return the name of the method around a node."""
        return name_of(enclosing(node, "method", "singleton_method"))


def called(node: SgNode | None) -> tuple[str, ...]:
    """Return the names that a body calls, in order; a bare word on its own line is a call."""
    found = []
    for each in nodes(node, "call", "identifier")[:200] if node is not None else ():
        if each.kind() == "call":
            found.append(name_of(each, "method"))
        elif (parent := each.parent()) is not None and parent.kind() in _BODIES:
            found.append(each.text())
    return tuple(dict.fromkeys(name for name in found if name and name not in _PLAIN))[:40]


def _call(node: SgNode) -> Call:
    name, receiver = node.field("method"), node.field("receiver")
    arguments: list[str] = []
    options: dict[str, str] = {}
    for each in children(node.field("arguments")):
        if each.kind() == "pair":
            key, value = each.field("key"), each.field("value")
            if key is not None and value is not None:
                options[key.text().strip(":\"' ")] = value.text()
        else:
            arguments.append(each.text())
    block = node.field("block")
    body = without_comments(block.text(), "#") if block is not None else ""
    return Call(
        name.text() if name is not None else "",
        receiver.text() if receiver is not None else "",
        tuple(arguments),
        options,
        body,
        line(block) if block is not None else 0,
        line(name) if name is not None else line(node),
        node,
    )


def schedule(text: str) -> str:
    """Return a schedule as it is written in Ruby: ``1.day``, ``'5m'``, ``:hour``, a cron text."""
    plain = text.strip()
    if plain in _WORDS:
        return _WORDS[plain]
    duration = re.fullmatch(r"([\d_]+)\.(second|minute|hour|day|week)s?", plain)
    if duration:
        return every(int(duration[1].replace("_", "")) * _UNITS[duration[2]])
    months = re.fullmatch(r"(\d+)\.(month|year)s?", plain)
    if months:
        return f"every {months[1]} {months[2]}s"
    if re.fullmatch(r"\d{1,9}", plain):
        return every(int(plain)) if int(plain) else ""
    return written(literal(plain)) or computed(plain)


def written(text: str) -> str:
    """Return a schedule that a text holds: cron, ``5m``, ``1h30m``, ``every 5 minutes``."""
    found = cron(text) or cron(" ".join(text.split()[:5]) if len(text.split()) == 6 else "")
    if found:
        return found
    if re.fullmatch(r"(?:\d+[smhdw])+", text):
        total = sum(
            int(number) * _SHORT[unit] for number, unit in re.findall(r"(\d+)([smhdw])", text)
        )
        return every(total) if total else ""
    return text if re.fullmatch(r"(?:every|at)\b[\w\s:,@/+-]{1,60}", text) else ""


def computed(text: str) -> str:
    """Return the name that a schedule comes from."""
    default = re.search(r"(?:\|\||,)\s*(?P<q>[\"'])(?P<text>[^\"']+)(?P=q)", text)
    if default and written(default["text"]):
        return written(default["text"])
    name = re.search(r"[A-Za-z_][\w.:]*\w(?:\[[\"':]*\w+[\"']*\])?", re.sub(r"[\"#{}]", " ", text))
    return f"from {name[0]}"[:CHARACTERS_MAX] if name else ""
