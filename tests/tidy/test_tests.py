"""What tests must keep to, so that a red one can be understood and a green one believed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tidy.tree import SOURCE, TESTS, parsed, place, python_files

WORDS_MIN = 4
# Decisions take `now` as an argument: a test that waits for one has missed that.
WITHOUT_WAITING = ("core", "commands", "tidy")


def test_every_test_states_its_claim() -> None:
    mute = [
        f"{place(file)}:{function.lineno} {function.name}"
        for directory in (TESTS, SOURCE / "testing")
        for file in python_files(directory)
        for function in claims(parsed(file))
        if not ast.get_docstring(function) and len(function.name.split("_")) - 1 < WORDS_MIN
    ]

    assert mute == [], f"a name of {WORDS_MIN} words that is the claim, or a docstring"


def test_no_test_of_a_decision_sleeps() -> None:
    sleeping = [
        f"{place(file)}:{node.lineno}"
        for name in WITHOUT_WAITING
        for file in python_files(TESTS / name)
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}
    ]

    assert sleeping == []


def claims(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:5] == "test_":
            yield node
