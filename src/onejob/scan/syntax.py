"""Syntax trees of languages other than Python: parsed by the grammars inside ast-grep, offline.

A file is parsed only where a source has seen one of its own words in the text, so that most files
of a tree cost one search. Nodes are asked for by kind; nothing here walks a whole tree in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from onejob.scan.facts import Fact, Note

if TYPE_CHECKING:
    from ast_grep_py import SgNode

NODES_MAX = 20_000
ABOVE_MAX = 200
#: Asking a node for its parent costs as much as it is deep; no program is written as deep as this.
DEPTH_MAX = 400
CHAIN_MAX = 300
#: Calls in calls without brackets, as Ruby has them; no text shows how deep those are.
CALLS_MAX = 80
UNCLOSED_MAX = 500
FACTS_MAX = 500
_BRACKETS = re.compile(r"[()\[\]{}]")
_CHAIN = re.compile(rf"(?:(?:\??\.|->|::)\w+\s*\([^()\n]{{0,80}}\)\s*){{{CHAIN_MAX}}}")
#: Type arguments in type arguments: a grammar that weighs every reading of them never ends.
_GENERICS = re.compile(r"(?<![\w.:?])(?:[\w.:?]{1,100}\s{0,9}<\s{0,9}){12}|(?:<\s{0,9}){40}")
_QUOTES = "\"'`"


def parse(text: str, language: str) -> SgNode:
    """Parse a text; a broken one gives a tree with errors in it."""
    from ast_grep_py import SgRoot

    if _too_deep(text):
        raise RecursionError(language)
    return SgRoot(text, language).root()


def _too_deep(text: str) -> bool:
    """Decide whether a text is made to be deep: brackets, calls on calls, comments in comments."""
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        depth = depth + 1 if bracket[0] in "([{" else max(0, depth - 1)
        if depth > DEPTH_MAX:
            return True
    if text.count("/*") - text.count("*/") > UNCLOSED_MAX:
        return True
    return _CHAIN.search(text) is not None or _GENERICS.search(text) is not None


def limited(facts: Iterable[Fact], path: str) -> Iterator[Fact]:
    """Return the first facts of a file, and a note where there are more than people write."""
    for count, fact in enumerate(facts):
        if count >= FACTS_MAX:
            yield Note(path, f"more than {FACTS_MAX} facts: the rest of the file is left out")
            return
        yield fact


def nodes(root: SgNode, *kinds: str) -> list[SgNode]:
    """Return the nodes of these kinds, which the grammar must have, in the order of the text."""
    return root.find_all(any=[{"kind": kind} for kind in kinds])[:NODES_MAX]


def shallow(found: list[SgNode], language: str) -> list[SgNode]:
    """Return nodes in the order of the text; RecursionError where too many stand in each other."""
    ends: list[int] = []
    for node in found:
        place = node.range()
        while ends and ends[-1] <= place.start.index:
            ends.pop()
        ends.append(place.end.index)
        if len(ends) > CALLS_MAX:
            raise RecursionError(language)
    return found


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
