"""Python that this Python's parser does not take: newer syntax, Python 2, templates of Python.

The lines that it stumbles over are replaced, one by one, by lines of the same depth that say
nothing, so that the rest of the file can still be judged and keeps its line numbers.
"""

from __future__ import annotations

import ast
import re

#: A file that needs more is not Python.
REPAIRS_MAX = 60
_TEMPLATE = re.compile(r"^\s*\{[%#].*[%#]\}\s*$")
_INLINE = re.compile(r"\{\{.{0,300}?\}\}|<%.{0,300}?%>|\$\{\w+\}")
_EXCEPT = re.compile(r"^(\s*except\*?\s+)([\w.]+(?:\s*,\s*[\w.]+)+)(\s*:.*)$")
_PRINT = re.compile(r"^(\s*)print\s+[^(=].*$")
_INDENT = re.compile(r"^\s*")


def parsed(text: str) -> ast.Module:
    """Parse a text, repaired where needed; SyntaxError where that is not enough."""
    try:
        return ast.parse(text)
    except SyntaxError as first:
        lines = [_known(line) for line in text.split("\n")]
        for _ in range(REPAIRS_MAX):
            try:
                return ast.parse("\n".join(lines))
            except SyntaxError as error:
                if not _blanked(lines, error):
                    raise first from None
        raise first from None


def _known(line: str) -> str:
    if _TEMPLATE.match(line):
        return ""
    line = _INLINE.sub("template", line)
    line = _EXCEPT.sub(r"\1(\2)\3", line)
    return _PRINT.sub(r"\1pass", line)


def _blanked(lines: list[str], error: SyntaxError) -> bool:
    """Replace the line that the parser names; False where there is nothing left to replace."""
    number = min(max(error.lineno or 1, 1), len(lines)) - 1
    if isinstance(error, IndentationError) and "expected an indented block" in error.msg:
        before = next((n for n in range(number - 1, -1, -1) if lines[n].strip()), 0)
        depth = _INDENT.match(lines[before])
        lines[before] += " pass" if lines[before].rstrip().endswith(":") else ""
        return depth is not None and lines[before].rstrip().endswith("pass")
    while number >= 0 and not lines[number].strip():
        number -= 1
    if number < 0:
        return False
    old = lines[number]
    depth = _INDENT.match(old)
    indent = depth[0] if depth else ""
    new = indent + ("if 1:" if old.rstrip().endswith(":") else "pass")
    if new == old.rstrip():
        new = ""
    lines[number] = new
    return new != old
