"""YAML manifests as trees with line numbers: parsed where they are YAML, read by line where a
template makes them something else.

A Helm chart or an ERB file is no YAML until it is rendered. Its lines still say what it is: keys,
indentation and dashes are read, lines that only steer the template are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

DOCUMENTS_MAX = 2_000
NODES_MAX = 100_000
DEPTH_MAX = 80
_TEMPLATE = re.compile(r"\{\{|\{%|<%|\$\{\{")
_OPENING = re.compile(r"\{\{-?\s*(if|else|end|range|with|define|block|template|/\*)\b")
#: A key may be a symbol of Ruby, ``:schedule:``.
_ENTRY = re.compile(r"(?P<key>\"[^\"]*\"|'[^']*'|:?[^\s#:'\"{}\[\],&*!|>%@`-][^:#]*?)\s*:(?:\s+|$)")
_DASH = re.compile(r"-(?:\s+|$)")
_LISTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^,\[\]\s][^,\[\]]*)")
_BLOCK_TEXT = re.compile(r"[|>][+-]?\d*\s*(#.*)?$")


@dataclass(slots=True)
class Node:
    """A place in a manifest: a text, or entries, or items."""

    line: int
    text: str = ""
    entries: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    """The line of each key itself; its value may begin further down."""

    def at(self, *path: str) -> Node | None:
        """Return the node under these keys; None where a step is missing."""
        node: Node | None = self
        for key in path:
            node = node.entries.get(key) if node is not None else None
        return node

    def get(self, *path: str) -> str:
        """Return the text under these keys; "" where there is none."""
        node = self.at(*path)
        return node.text if node is not None else ""

    def line_of(self, key: str) -> int:
        """Return where a key stands, or where the node begins."""
        return self.keys.get(key, self.line)

    def walk(self) -> Iterator[tuple[str, Node, Node | None]]:
        """Return (key, node, parent) of everything below, in order; items have the key "-"."""
        stack: list[tuple[str, Node, Node | None]] = [("", self, None)]
        while stack:
            key, node, parent = stack.pop()
            yield key, node, parent
            below = [(name, child, node) for name, child in node.entries.items()]
            below += [("-", child, node) for child in node.items]
            stack.extend(reversed(below))

    @property
    def texts(self) -> list[str]:
        """Return the items that are texts, or the text itself as one."""
        if self.items:
            return [item.text for item in self.items if item.text]
        return [self.text] if self.text else []


def documents(text: str) -> list[Node]:
    """Return the documents of a manifest, whatever it is written in."""
    if not _TEMPLATE.search(text):
        parsed = _parsed(text)
        if parsed is not None:
            return parsed
    return _by_line(text)


def _parsed(text: str) -> list[Node] | None:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        return None
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = []
    budget = [NODES_MAX]
    try:
        for document in yaml.compose_all(text, Loader=loader):
            if document is not None:
                found.append(_converted(document, budget, 0))
            if len(found) >= DOCUMENTS_MAX:
                break
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return found


def _converted(node: Any, budget: list[int], depth: int) -> Node:
    """Turn a composed node into ours; the budget bounds what aliases unfold to."""
    made = Node(node.start_mark.line + 1)
    budget[0] -= 1
    if budget[0] < 0 or depth > DEPTH_MAX:
        return made
    if node.id == "scalar":
        made.text = node.value
    elif node.id == "sequence":
        made.items = [_converted(child, budget, depth + 1) for child in node.value]
    else:
        for key, value in node.value:
            if key.id != "scalar":
                continue
            child = _converted(value, budget, depth + 1)
            if key.value == "<<":
                for merged in (child, *child.items):
                    made.entries = {**merged.entries, **made.entries}
                    made.keys = {**merged.keys, **made.keys}
                continue
            made.entries[key.value] = child
            made.keys[key.value] = key.start_mark.line + 1
    return made


@dataclass(slots=True)
class _Open:
    indent: int
    node: Node
    dash: bool = False


def _by_line(text: str) -> list[Node]:
    """Read keys, dashes and indentation; the first value of a key that a template repeats stays."""
    found: list[Node] = []
    root = Node(1)
    stack = [_Open(-1, root)]
    block: tuple[int, Node] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.expandtabs(2).rstrip()
        content = line.lstrip()
        indent = len(line) - len(content)
        if block is not None and (not content or indent > block[0]):
            if len(block[1].text) < NODES_MAX:
                block[1].text += content + "\n"
            continue
        block = None
        if not content or content.startswith("#") or _steers(content):
            continue
        if content.startswith("---"):
            if root.entries or root.items:
                found.append(root)
            root = Node(number + 1)
            stack = [_Open(-1, root)]
            continue
        if len(found) < DOCUMENTS_MAX:
            block = _line_read(stack, number, indent, content)
    if root.entries or root.items:
        found.append(root)
    return found


def _steers(content: str) -> bool:
    if _OPENING.match(content) or content.startswith(("{%", "<%")):
        return True
    return content.startswith("{{") and not re.search(r"\}\}[^:]*:(\s|$)", content)


def _line_read(
    stack: list[_Open], number: int, indent: int, content: str
) -> tuple[int, Node] | None:
    dashed = _DASH.match(content) is not None
    while len(stack) > 1 and (
        stack[-1].indent > indent
        or (stack[-1].indent == indent and not (dashed and not stack[-1].dash))
    ):
        stack.pop()
    top = stack[-1].node
    while _DASH.match(content) and len(stack) < DEPTH_MAX:
        item = Node(number)
        top.items.append(item)
        stack.append(_Open(indent, item, dash=True))
        rest = content[1:].lstrip()
        indent += len(content) - len(rest)
        content, top = rest, item
    if not content:
        return None
    entry = _ENTRY.match(content)
    if entry is None:
        top.text = top.text or _plain(content)
        return None
    key = entry["key"].strip("\"' ")
    value = content[entry.end() :].strip()
    child = Node(number)
    if key not in top.entries or (value and not top.entries[key].text):
        top.entries[key] = child
        top.keys[key] = number
    if len(stack) < DEPTH_MAX:
        stack.append(_Open(indent, child))
    if _BLOCK_TEXT.match(value):
        return indent, child
    _fill(child, value)
    return None


def _fill(node: Node, value: str) -> None:
    """Take a value on its key's line: a text, or a flow collection that ends there."""
    node.text = _plain(value)
    if node.text[:1] not in ("[", "{") or node.text.startswith("{{"):
        return
    parsed = _parsed(node.text) if not _TEMPLATE.search(node.text) else None
    if parsed:
        for _, child, _ in parsed[0].walk():
            child.line = node.line
        node.entries, node.items, node.text = parsed[0].entries, parsed[0].items, ""
        node.keys = dict.fromkeys(node.entries, node.line)
    elif node.text.startswith("["):
        inner = _LISTED.findall(node.text[1:-1])
        node.items = [Node(node.line, (a or b or c).strip()) for a, b, c in inner]
        node.text = ""


def _plain(value: str) -> str:
    quoted = re.match(r"(?:&\w+\s+)?(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)')\s*(?:#.*)?$", value)
    if quoted:
        return quoted[1] if quoted[1] is not None else quoted[2]
    return re.sub(r"(?:^|\s+)#.*$", "", value).strip()
