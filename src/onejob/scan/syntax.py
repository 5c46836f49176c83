"""Syntax trees of languages other than Python: parsed by the grammars inside ast-grep, offline.

A file is parsed only where a source has seen one of its own words in the text, so that most files
of a tree cost one search. Nodes are asked for by kind; nothing here walks a whole tree in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ast_grep_py import SgNode

NODES_MAX = 50_000
ABOVE_MAX = 200
_QUOTES = "\"'`"


def parse(text: str, language: str) -> SgNode:
    """Parse a text; a broken one gives a tree with errors in it."""
    from ast_grep_py import SgRoot

    return SgRoot(text, language).root()


def nodes(root: SgNode, *kinds: str) -> list[SgNode]:
    """Return the nodes of these kinds, which the grammar must have, in the order of the text."""
    return root.find_all(any=[{"kind": kind} for kind in kinds])[:NODES_MAX]


def line(node: SgNode) -> int:
    """Return the line that a node begins on, from 1."""
    return node.range().start.line + 1


def above(node: SgNode, *kinds: str) -> Iterator[SgNode]:
    """Return what a node stands in, from the inside out; only these kinds, where any are given."""
    parent = node.parent()
    for _ in range(ABOVE_MAX):
        if parent is None:
            return
        if not kinds or parent.kind() in kinds:
            yield parent
        parent = parent.parent()


def enclosing(node: SgNode, *kinds: str) -> SgNode | None:
    """Return the innermost node of these kinds that a node stands in."""
    return next(above(node, *kinds), None)


def field(node: SgNode, name: str) -> SgNode | None:
    """Return a child by its field's name."""
    return node.field(name)


def name_of(node: SgNode | None, name: str = "name") -> str:
    """Return the text of a node's name; "" where it has none."""
    found = node.field(name) if node is not None else None
    return found.text() if found is not None else ""


def children(node: SgNode | None, *kinds: str) -> list[SgNode]:
    """Return a node's children that carry meaning; only these kinds, where any are given."""
    if node is None:
        return []
    return [
        child
        for child in node.children()
        if child.is_named()
        and child.kind() not in _COMMENTS
        and (not kinds or child.kind() in kinds)
    ]


def literal(text: str) -> str:
    """Return what stands between the quotes of a text literal; "" for any other expression."""
    text = text.strip()
    if text.startswith('"""') and text.endswith('"""') and len(text) >= 6:
        return text[3:-3]
    prefix = re.match(r"[@$uUbBrR]{0,2}(?=[\"'`])", text)
    text = text[prefix.end() :] if prefix else text
    if len(text) >= 2 and text[0] in _QUOTES and text[-1] == text[0] and text[0] not in text[1:-1]:
        return text[1:-1]
    return ""


def has_word(text: str, words: Iterable[str]) -> bool:
    """Decide whether a text has one of these words, without parsing it."""
    return any(word in text for word in words)


_COMMENTS = frozenset(("comment", "line_comment", "block_comment", "multiline_comment"))
