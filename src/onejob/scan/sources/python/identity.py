"""Which object of the tree an expression names: one name for it in every file that imports it."""

from __future__ import annotations

import ast

from onejob.scan.sources.python.module import FOLLOWED_MAX, Module


def imported(module: Module, name: str) -> bool:
    """Decide whether a dotted name comes from another file."""
    return "." in name and any(
        name == known or name.startswith(f"{known}.") for known in module.imports.values()
    )


def absolute(module: Module, name: str) -> str:
    """Return a dotted name without the dots of a relative import."""
    levels = len(name) - len(name.lstrip("."))
    if not levels:
        return name
    package = module.dotted.split(".")
    if not module.path.endswith("__init__.py"):
        package = package[:-1]
    package = package[: len(package) - levels + 1]
    return ".".join((*package, name[levels:]))


def identity(module: Module, node: ast.AST | None) -> str:
    """Return the dotted name within the tree of the object that an expression names."""
    for _ in range(FOLLOWED_MAX):
        if not isinstance(node, ast.Name):
            break
        followed = module.values.get(node.id)
        if not isinstance(followed, ast.Name | ast.Attribute):
            break
        node = followed
    if not isinstance(node, ast.Name | ast.Attribute):
        return ""
    name = module.name(node)
    if not name or imported(module, name) or name in module.imports.values():
        return absolute(module, name)
    return f"{module.dotted}.{name}"
