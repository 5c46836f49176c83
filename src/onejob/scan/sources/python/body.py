"""One function's own nodes: what it calls, holds, asks and says."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from onejob.scan.sources.python.module import FunctionNode, Module

_TELLS = re.compile(r"\blog|\bprint|stdout|write$|metric|count", re.I)


@dataclass(frozen=True)
class Body:
    """One function's own nodes, and the texts in it."""

    module: Module
    function: FunctionNode
    calls: tuple[ast.Call, ...]
    withs: tuple[ast.With | ast.AsyncWith, ...]
    tests: tuple[ast.expr, ...]
    strings: tuple[ast.Constant, ...]

    def tested(self, call: ast.Call) -> bool:
        """Decide whether a condition looks at what a call answered."""
        names = names_bound_to(self.module, call)
        for test in self.tests:
            for node in ast.walk(test):
                if node is call or (isinstance(node, ast.Name) and node.id in names):
                    return True
        return False

    def decides(self, call: ast.Call) -> bool:
        """Decide whether a condition on the answer does more than tell of it."""
        names = names_bound_to(self.module, call)
        for test in self.tests:
            parent = self.module.parents.get(test)
            if not any(
                node is call or (isinstance(node, ast.Name) and node.id in names)
                for node in ast.walk(test)
            ):
                continue
            if not isinstance(parent, ast.If) or any(map(_acts, parent.body)):
                return True
        return False


def _acts(statement: ast.stmt) -> bool:
    """Decide whether a statement does something besides logging."""
    if isinstance(statement, ast.Return | ast.Continue | ast.Raise | ast.Break):
        return True
    return any(
        isinstance(node, ast.Call) and not _TELLS.search(ast.unparse(node.func))
        for node in ast.walk(statement)
    )


def body_of(module: Module, function: FunctionNode) -> Body:
    """Collect a function's nodes, its inner functions left out unless it is a decorator."""
    calls: list[ast.Call] = []
    withs: list[ast.With | ast.AsyncWith] = []
    tests: list[ast.expr] = []
    strings: list[ast.Constant] = []
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        match node:
            case ast.Call():
                calls.append(node)
            case ast.With() | ast.AsyncWith():
                withs.append(node)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                tests.append(test)
            case ast.Assert(test=test):
                tests.append(test)
            case ast.Constant(value=str()):
                strings.append(node)
            case ast.ClassDef():
                continue
            case _:
                pass
        stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return Body(module, function, tuple(calls), tuple(withs), tuple(tests), tuple(strings))


def names_bound_to(module: Module, call: ast.Call) -> set[str]:
    for above in module.above(call):
        match above:
            case ast.Assign(targets=targets):
                return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.NamedExpr(target=ast.Name(id=name)):
                return {name}
            case ast.stmt():
                return set()
            case _:
                continue
    return set()
