"""How the package's own files must look."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tidy.tree import SOURCE, parsed, place, python_files

LINES_MAX = 400
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
# What turns data into code. Job names and arguments come from a store that others may write to.
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
UNSAFE_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
TEXTS = {".py", ".sql", ".lua", ".html", ".css", ".js"}


def test_every_source_file_can_be_read_in_one_sitting() -> None:
    long = {
        place(file): lines
        for file in sorted(SOURCE.rglob("*"))
        if file.suffix in TEXTS
        and (lines := len(file.read_text(encoding="utf-8").splitlines())) > LINES_MAX
    }

    assert long == {}, f"more than {LINES_MAX} lines: split where the ideas part"


def test_every_module_is_named_after_an_idea() -> None:
    unnamed = [
        place(file)
        for file in python_files(SOURCE)
        if EMPTY_NAMES & {file.stem, *file.relative_to(SOURCE).parts}
    ]

    assert unnamed == [], "a name that says nothing: use the noun of the field"


def test_no_data_can_become_code() -> None:
    """G01: whoever can write to the store must not thereby run code in a replica."""
    unsafe = [
        f"{place(file)}:{line} {what}"
        for file in python_files(SOURCE)
        for line, what in unsafe_uses(parsed(file))
    ]

    assert unsafe == []


def test_the_check_for_code_from_data_finds_each_form() -> None:
    text = "import pickle\nfrom marshal import loads\neval('1')\nimport yaml\nyaml.load('')\n"

    assert [line for line, _ in unsafe_uses(ast.parse(text))] == [1, 2, 3, 5]


def unsafe_uses(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                imported = {name.name.partition(".")[0] for name in names}
            case ast.ImportFrom(module=str(name)):
                imported = {name.partition(".")[0]}
            case ast.Call(func=ast.Name() | ast.Attribute() as function):
                if (called := ast.unparse(function)) in UNSAFE_CALLS:
                    yield node.lineno, called
                continue
            case _:
                continue
        for name in sorted(imported & UNSAFE_MODULES):
            yield node.lineno, name
