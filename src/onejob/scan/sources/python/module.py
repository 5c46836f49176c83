"""A parsed Python file: its nodes by kind, and what its names mean as far as the file tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from onejob.scan.reading import SourceFile
from onejob.scan.sources.python.repair import parsed

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
NODES_MAX = 2_000_000
FOLLOWED_MAX = 20


@dataclass
class Module:
    """One file. Scopes are not kept apart: a name means what the file last bound it to."""

    file: SourceFile
    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)
    hints: dict[str, ast.expr] = field(default_factory=dict)
    calls: list[ast.Call] = field(default_factory=list)
    functions: list[FunctionNode] = field(default_factory=list)
    classes: list[ast.ClassDef] = field(default_factory=list)
    loops: list[ast.While | ast.For | ast.AsyncFor] = field(default_factory=list)
    dicts: list[ast.Dict] = field(default_factory=list)
    strings: list[ast.Constant] = field(default_factory=list)
    assignments: list[ast.Assign | ast.AnnAssign] = field(default_factory=list)
    conditions: list[ast.If] = field(default_factory=list)
    handlers: list[ast.ExceptHandler] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Return the file's path."""
        return self.file.path

    @property
    def dotted(self) -> str:
        """Return the module's own dotted name, from its path."""
        return self.path.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")

    def uses(self, *packages: str) -> bool:
        """Decide whether the file imports from one of these packages."""
        return any(
            dotted == package or dotted.startswith(package + ".")
            for dotted in self.imports.values()
            for package in packages
        )

    def name(self, node: ast.AST | None) -> str:
        """Return the dotted name of an expression, through imports; "" where it has none."""
        parts: list[str] = []
        while node is not None:
            match node:
                case ast.Attribute(value=value, attr=attr):
                    parts.append(attr)
                    node = value
                case ast.Call(func=function):
                    node = function
                case ast.Await(value=value) | ast.Starred(value=value):
                    node = value
                case ast.Subscript(value=value):
                    node = value
                case ast.Name(id=identifier):
                    parts.append(self.imports.get(identifier, identifier))
                    return ".".join(reversed(parts))
                case _:
                    break
        return "." + ".".join(reversed(parts)) if parts else ""

    def maker(self, node: ast.AST) -> str:
        """Return the dotted name of what made a value: its class or its factory."""
        for _ in range(FOLLOWED_MAX):
            match node:
                case ast.Await(value=value):
                    node = value
                case ast.Call():
                    return self.name(node.func)
                case ast.Name(id=identifier) if identifier in self.values:
                    node = self.values[identifier]
                case ast.Name(id=identifier) if identifier in self.hints:
                    return self.name(self.hints[identifier])
                case ast.Attribute() if (key := ast.unparse(node)) in self.values:
                    node = self.values[key]
                case _:
                    return self.name(node)
        return ""

    def value(self, node: ast.AST | None) -> ast.AST | None:
        """Follow a name to the expression that the file binds it to."""
        for _ in range(FOLLOWED_MAX):
            match node:
                case ast.Name(id=identifier) if identifier in self.values:
                    node = self.values[identifier]
                case ast.Attribute() if (key := ast.unparse(node)) in self.values:
                    node = self.values[key]
                case _:
                    return node
        return None

    def text(self, node: ast.AST | None) -> str:
        """Return a constant text, through names and concatenation; "" for anything else."""
        node = self.value(node)
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.text(left), self.text(right)
                return first + second if first and second else ""
            case _:
                return ""

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Return the nodes around a node, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """Return the function that a node stands in."""
        for each in self.above(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                return each
        return None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class that a node stands in."""
        for each in self.above(node):
            if isinstance(each, ast.ClassDef):
                return each
        return None

    def qualified(self, function: FunctionNode) -> str:
        """Return a function's dotted name within the tree."""
        owner = self.class_of(function)
        inner = f"{owner.name}.{function.name}" if owner else function.name
        return f"{self.dotted}.{inner}"

    def local(self, name: str) -> FunctionNode | None:
        """Return the function of this file that a dotted name ends in."""
        last = name.rpartition(".")[2]
        for function in self.functions:
            if function.name == last:
                return function
        return None

    def marks(self, function: FunctionNode) -> tuple[str, ...]:
        """Return the dotted names of a function's decorators."""
        return tuple(filter(None, map(self.name, function.decorator_list)))


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    """Return a call's named arguments, those of ``**dict(...)`` and ``**{...}`` included."""
    found: dict[str, ast.expr] = {}
    for each in call.keywords:
        if each.arg is not None:
            found[each.arg] = each.value
        elif isinstance(each.value, ast.Dict):
            found.update(entries(each.value))
        elif isinstance(each.value, ast.Call) and isinstance(each.value.func, ast.Name):
            found.update({k.arg: k.value for k in each.value.keywords if k.arg})
    return found


def entries(node: ast.AST | None) -> dict[str, ast.expr]:
    """Return a dict display's entries with constant keys, or a ``dict(...)`` call's."""
    match node:
        case ast.Dict(keys=keys, values=values):
            return {
                key.value: value
                for key, value in zip(keys, values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
        case ast.Call(func=ast.Name(id="dict")):
            return {each.arg: each.value for each in node.keywords if each.arg}
        case _:
            return {}


def argument(call: ast.Call, position: int, *names: str) -> ast.expr | None:
    """Return an argument by its position or one of its names."""
    for each in call.keywords:
        if each.arg in names:
            return each.value
    if position < 0 or any(isinstance(each, ast.Starred) for each in call.args[: position + 1]):
        return None
    return call.args[position] if position < len(call.args) else None


def parse(file: SourceFile) -> Module:
    """Parse a file; SyntaxError for what is no Python 3."""
    module = Module(file, parsed(file.text))
    stack: list[ast.AST] = [module.tree]
    seen = 0
    while stack:
        node = stack.pop()
        seen += 1
        if seen > NODES_MAX:
            raise MemoryError
        _take(module, node)
        below = list(ast.iter_child_nodes(node))
        for child in below:
            module.parents[child] = node
        stack.extend(reversed(below))
    return module


def _take(module: Module, node: ast.AST) -> None:
    match node:
        case ast.Call():
            module.calls.append(node)
        case ast.Constant(value=str()):
            module.strings.append(node)
        case ast.Dict():
            module.dicts.append(node)
        case ast.If():
            module.conditions.append(node)
        case ast.ExceptHandler():
            module.handlers.append(node)
        case ast.Import(names=names):
            for name in names:
                known = name.asname or name.name.partition(".")[0]
                module.imports[known] = name.name if name.asname else known
                module.imports.setdefault(f"import {name.name}", name.name)
        case ast.ImportFrom(module=source, names=names, level=level):
            for name in names:
                package = "." * level + (source or "")
                dot = "" if package.endswith(".") or not package else "."
                module.imports[name.asname or name.name] = f"{package}{dot}{name.name}"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            module.functions.append(node)
            for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if parameter.annotation is not None:
                    module.hints.setdefault(parameter.arg, parameter.annotation)
        case ast.ClassDef():
            module.classes.append(node)
        case ast.While() | ast.For() | ast.AsyncFor():
            module.loops.append(node)
        case ast.Assign(targets=targets, value=value):
            module.assignments.append(node)
            for target in targets:
                _bind(module, target, value)
        case ast.AnnAssign(target=target):
            module.assignments.append(node)
            if node.value is not None:
                _bind(module, target, node.value)
            elif isinstance(target, ast.Name):
                module.hints.setdefault(target.id, node.annotation)
        case ast.NamedExpr(target=target, value=value):
            _bind(module, target, value)
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            _bind(module, target, value)
        case _:
            pass


def _bind(module: Module, target: ast.expr, value: ast.expr) -> None:
    match target:
        case ast.Name(id=identifier):
            module.values[identifier] = value
        case ast.Attribute(value=ast.Name()):
            module.values[ast.unparse(target)] = value
        case ast.Tuple(elts=targets):
            values = value.elts if isinstance(value, ast.Tuple) else []
            if len(values) == len(targets):
                for each, bound in zip(targets, values, strict=True):
                    _bind(module, each, bound)
        case _:
            pass
