"""JavaScript that looks like a guard or a key and is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan.facts import Smell
from onejob.scan.sources.javascript.script import FUNCTIONS, Script, arguments, called
from onejob.scan.syntax import enclosing, line, nodes

if TYPE_CHECKING:
    from ast_grep_py import SgNode

#: A file without any of these has none of the smells.
WORDS = re.compile(
    r"ON CONFLICT|INSERT IGNORE|skipDuplicates|ignoreDuplicates|onConflict|idempoten|setnx"
    r"|['\"]NX['\"]|\bNX\s*:",
    re.IGNORECASE,
)
_CONFLICT = re.compile(r"\bON\s+CONFLICT\s+DO\s+NOTHING|\bINSERT\s+IGNORE\b", re.I)
_KEY = re.compile(r"^['\"]?(x-)?idempoten(t|cy)[-_]?key['\"]?$", re.I)
_DRAWN = re.compile(
    r"randomUUID|\buuid(v[14])?\(|\bv[14]\(\)|nanoid\(|Math\.random|randomBytes|ulid\("
)
_NX = re.compile(r"['\"]NX['\"]|\bNX\s*:\s*true|\bnx\s*:\s*true")
_EXPIRES = re.compile(r"['\"](EX|PX)['\"]|\b(EX|PX|ex|px|ttl)\s*:")

_SILENT = "lets any unique key refuse the row without a word, the one that was meant and the others"
_ANEW = "is drawn anew by each attempt, so that a repeated request is a new one to the provider"
_FOREVER = "takes a lock that never ends when its holder dies, or gets its end in a second step"
_WHOSE = "frees the lock whoever has it by now: another holder, when ours had lapsed"


def find(script: Script) -> Iterator[Smell]:
    """Return the smells of a file."""
    for node in nodes(script.root, "string", "template_string"):
        if _CONFLICT.search(node.text()):
            yield _smell(script, "conflict-without-target", node, "INSERT", _SILENT)
    for node in nodes(script.root, "pair"):
        yield from _pair(script, node)
    taken: dict[str, SgNode] = {}
    for call in nodes(script.root, "call_expression"):
        yield from _call(script, call, taken)


def _smell(script: Script, kind: str, node: SgNode, name: str, why: str) -> Smell:
    return Smell(kind, script.path, line(node), script.language, name, why, "medium")


def _pair(script: Script, node: SgNode) -> Iterator[Smell]:
    key, value = node.field("key"), node.field("value")
    if key is None or value is None:
        return
    name = key.text().strip("'\"")
    if name in ("skipDuplicates", "ignoreDuplicates") and value.text() == "true":
        yield _smell(script, "conflict-without-target", node, name, _SILENT)
    bound = script.value(value)
    if _KEY.match(key.text()) and bound is not None and _DRAWN.search(bound.text()[:200]):
        yield _smell(script, "random-key", node, name, _ANEW)


def _call(script: Script, call: SgNode, taken: dict[str, SgNode]) -> Iterator[Smell]:
    last = called(call).replace("?.", ".").rpartition(".")[2]
    given = arguments(call)
    if last == "onConflict" and not given:
        yield _smell(script, "conflict-without-target", call, last, _SILENT)
    elif given and (last == "setnx" or (last == "set" and _NX.search(call.text()[:1_000]))):
        taken[given[0].text()] = call
        if last == "setnx" or not _EXPIRES.search(call.text()[:1_000]):
            yield _smell(script, "lock-without-expiry", call, last, _FOREVER)
    elif given and last in ("del", "unlink") and given[0].text() in taken:
        function, other = enclosing(call, *FUNCTIONS), taken[given[0].text()]
        if function is not None and function.range().start.index <= other.range().start.index:
            yield _smell(script, "release-without-token", call, last, _WHOSE)
