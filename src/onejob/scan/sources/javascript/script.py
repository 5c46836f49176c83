"""A parsed JavaScript or TypeScript file: its imports, its constants, and its functions by name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onejob.scan.reading import SourceFile
from onejob.scan.syntax import above, children, line, literal, nodes, parse

if TYPE_CHECKING:
    from ast_grep_py import SgNode

FUNCTIONS = (
    "arrow_function",
    "function_expression",
    "function_declaration",
    "generator_function_declaration",
    "method_definition",
    "function",
)
_REQUIRE = re.compile(r"""(?:require|import)\(\s*["'`]([^"'`]+)["'`]\s*\)""")
_IMPORTED = re.compile(r"""from\s*["']([^"']+)["']|^import\s*["']([^"']+)["']""", re.M)
_STRIPPED = re.compile(r"^(?:await|void|return)\s+")
FOLLOWED_MAX = 10


@dataclass
class Script:
    """One file. ``imports`` gives for a local name its package and the name there."""

    file: SourceFile
    root: SgNode
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    values: dict[str, SgNode] = field(default_factory=dict)
    functions: dict[str, SgNode] = field(default_factory=dict)
    packages: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """Return the file's path."""
        return self.file.path

    @property
    def language(self) -> str:
        """Return which of the two languages it is."""
        return "typescript" if self.path.endswith(("ts", "tsx")) else "javascript"

    def uses(self, *packages: str) -> bool:
        """Decide whether the file imports one of these packages, or a part of one."""
        return any(
            name == package or name.startswith(package + "/")
            for name in self.packages
            for package in packages
        )

    def origin(self, callee: str) -> tuple[str, str]:
        """Return (package, name there) of a called name such as ``cron.schedule``; ("", name)."""
        first, _, rest = callee.replace("?.", ".").partition(".")
        if first not in self.imports:
            made = self.values.get(first)
            if made is not None and made.kind() in ("new_expression", "call_expression"):
                package, name = self.origin(called(made)) if called(made) != callee else ("", "")
                return (package, f"{name}.{rest}" if rest else name) if package else ("", callee)
            return "", callee
        package, name = self.imports[first]
        inside = "" if name in ("*", "default") else name
        return package, ".".join(filter(None, (inside, rest))) or name

    def value(self, node: SgNode | None) -> SgNode | None:
        """Follow a name to the expression that the file binds it to."""
        for _ in range(FOLLOWED_MAX):
            if node is None:
                return None
            if node.kind() in ("as_expression", "satisfies_expression", "non_null_expression"):
                node = node.child(0)
                continue
            if node.kind() not in ("identifier", "member_expression"):
                return node
            last = node.text().replace("?.", ".").rpartition(".")[2]
            found = self.values.get(last)
            if found is None or same(found, node):
                return node
            node = found
        return node

    def text(self, node: SgNode | None) -> str:
        """Return a constant text, through names; "" for anything else."""
        found = self.value(node)
        return literal(found.text()) if found is not None else ""

    def function(self, node: SgNode | None) -> SgNode | None:
        """Return the function that a callback is: inline, by its name, or bound."""
        if node is None:
            return None
        if node.kind() in FUNCTIONS:
            return node
        text = node.text()
        bound = re.fullmatch(r"(?:this\.)?([\w$.]+?)(?:\.bind\([^()]*\))?", text)
        return self.functions.get(bound[1].rpartition(".")[2]) if bound else None


def same(one: SgNode, other: SgNode) -> bool:
    """Decide whether two handles are of one node."""
    first, second = one.range(), other.range()
    return (
        one.kind() == other.kind()
        and first.start.index == second.start.index
        and first.end.index == second.end.index
    )


def called(node: SgNode) -> str:
    """Return the text of what a call calls, or what ``new`` makes, without line breaks."""
    callee = node.field("function") or node.field("constructor")
    text = callee.text() if callee is not None else ""
    return re.sub(r"\s+", "", text)


def arguments(node: SgNode) -> list[SgNode]:
    """Return a call's arguments."""
    return children(node.field("arguments"))


def entries(node: SgNode | None) -> dict[str, SgNode]:
    """Return an object's entries by key."""
    found: dict[str, SgNode] = {}
    if node is None or node.kind() != "object":
        return found
    for each in children(node):
        if each.kind() == "pair":
            key, value = each.field("key"), each.field("value")
            if key is not None and value is not None:
                found[key.text().strip("\"'")] = value
        elif each.kind() == "method_definition":
            name = each.field("name")
            found[name.text() if name is not None else ""] = each
        elif each.kind() == "shorthand_property_identifier":
            found[each.text()] = each
    return found


def read(file: SourceFile) -> Script:
    """Parse a file and index what it imports, binds and defines."""
    low = file.path.lower()
    grammar = "tsx" if low.endswith("tsx") else "typescript" if low.endswith("ts") else "javascript"
    script = Script(file, parse(file.text, grammar))
    packages = set[str]()
    for node in nodes(script.root, "import_statement"):
        packages |= _import(script, node)
    for node in nodes(script.root, "variable_declarator"):
        packages |= _declared(script, node)
    fields = "field_definition" if grammar == "javascript" else "public_field_definition"
    for node in nodes(script.root, fields):
        name = node.field("name") or node.field("property")
        value = node.field("value")
        if name is not None and value is not None:
            script.values[name.text()] = value
            if value.kind() in FUNCTIONS:
                script.functions[name.text()] = value
    for node in nodes(script.root, "assignment_expression"):
        left, right = node.field("left"), node.field("right")
        if left is not None and right is not None and left.kind() == "member_expression":
            script.values.setdefault(left.text().rpartition(".")[2], right)
    for node in nodes(script.root, "function_declaration", "method_definition"):
        name = node.field("name")
        if name is not None:
            script.functions[name.text()] = node
    script.packages = frozenset(packages)
    return script


def _import(script: Script, node: SgNode) -> set[str]:
    match = _IMPORTED.search(node.text())
    if match is None:
        return set()
    package = match[1] or match[2]
    for clause in children(node, "import_clause"):
        for each in children(clause):
            match each.kind():
                case "identifier":
                    script.imports[each.text()] = (package, "default")
                case "namespace_import":
                    script.imports[each.text().split()[-1]] = (package, "*")
                case "named_imports":
                    for one in children(each, "import_specifier"):
                        words = one.text().removeprefix("type ").split(" as ")
                        script.imports[words[-1].strip()] = (package, words[0].strip())
                case _:
                    continue
    return {package}


def _declared(script: Script, node: SgNode) -> set[str]:
    name, value = node.field("name"), node.field("value")
    if name is None or value is None:
        return set()
    text = _STRIPPED.sub("", value.text()) if len(value.text()) < 200 else ""
    required = _REQUIRE.match(text)
    if required is not None:
        if name.kind() == "object_pattern":
            for each in children(name):
                words = [word.strip() for word in each.text().split(":")]
                script.imports[words[-1].split("=")[0].strip()] = (required[1], words[0])
        else:
            rest = text[required.end() :].lstrip(".").split("(")[0]
            script.imports[name.text()] = (required[1], rest or "default")
        return {required[1]}
    if name.kind() == "identifier":
        inner = value
        if inner.kind() == "await_expression":
            inner = next(iter(children(inner)), inner)
        script.values[name.text()] = inner
        if inner.kind() in FUNCTIONS:
            script.functions[name.text()] = inner
    return set()


def around(node: SgNode) -> str:
    """Return the name of the function or method that a node stands in; "" for none."""
    return next((name for each in above(node, *FUNCTIONS) if (name := own_name(each))), "")


def own_name(function: SgNode) -> str:
    """Return the name a function has, or is bound to where it is written; "" for none."""
    name = function.field("name")
    parent = function.parent()
    if name is None and parent is not None and parent.kind() in _BINDERS:
        name = next((n for key in _BINDERS[parent.kind()] if (n := parent.field(key))), None)
    return name.text() if name is not None else ""


_BINDERS = {
    "variable_declarator": ("name",),
    "pair": ("key",),
    "public_field_definition": ("name",),
    "field_definition": ("property",),
}


def line_of(node: SgNode) -> int:
    """Return the line where the called name ends, so that long chains point at the call."""
    callee = node.field("function")
    return callee.range().end.line + 1 if callee is not None else line(node)
