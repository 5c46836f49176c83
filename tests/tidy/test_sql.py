"""What the texts of the stores must keep to: see style.md's rules in CONTRIBUTING.md."""

from __future__ import annotations

import ast

from tidy.tree import SOURCE, SQL, bare, parsed, place, python_files, statements

BASE = sorted((SQL / "base").glob("*.sql"))
OVERRIDES = sorted(file for file in SQL.glob("*/*.sql") if file.parent.name != "base")


def test_no_statement_has_two_texts_in_one_dialect() -> None:
    for dialect in {file.parent for file in [*BASE, *OVERRIDES]}:
        names = [name for file in sorted(dialect.glob("*.sql")) for name in statements(file)]

        assert len(names) == len(set(names)), place(dialect)


def test_every_override_differs_from_its_base_and_says_why() -> None:
    base = {name: bare(text) for file in BASE for name, text in statements(file).items()}

    wrong = []
    for file in OVERRIDES:
        for name, text in statements(file).items():
            if name not in base:
                wrong.append(f"{place(file)}: {name} overrides nothing")
            elif bare(text) == base[name]:
                wrong.append(f"{place(file)}: {name} is equal to its base: delete it")
            if "-- why: " not in text:
                wrong.append(f"{place(file)}: {name} doesn't say why it differs")

    assert wrong == []


def test_every_text_has_a_command_and_every_command_a_text() -> None:
    texts = {name for file in BASE for name in statements(file)}

    assert texts == set(command_names())


def test_identifiers_are_substituted_only_where_the_catalogue_does_it() -> None:
    known = {"{schema}", "{now}"}

    unknown = [
        f"{place(file)}: {name} has {word}"
        for file in [*BASE, *OVERRIDES]
        for name, text in statements(file).items()
        for word in substitutions(bare(text)) - known
    ]

    assert unknown == []


def command_names() -> list[str]:
    """The names that the constructors in commands/ give to their commands."""
    return [
        node.args[0].value
        for file in python_files(SOURCE / "commands")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Command"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


def substitutions(text: str) -> set[str]:
    return {f"{{{part.partition('}')[0]}}}" for part in text.split("{")[1:]}
