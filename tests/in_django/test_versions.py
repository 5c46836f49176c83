"""Each version of the schema has a migration of Django's, all of them in one line."""

from __future__ import annotations

import ast
from pathlib import Path

import onejob
from onejob.stores.catalogue import Catalogue

FOLDER = Path(onejob.__file__).parent / "django" / "migrations"


def test_each_version_of_the_schema_has_a_migration() -> None:
    found = {path.stem for path in FOLDER.glob("schema_*.py")}
    versions = {
        v for name in ("postgresql", "sqlite") for v, _ in Catalogue(name, "o").migrations()
    }

    assert found == {f"schema_{version:04}" for version in versions}


def test_they_stand_in_one_line() -> None:
    after = {}
    for path in FOLDER.glob("*_0*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign | ast.AnnAssign) and "dependencies" in ast.unparse(node):
                assert node.value is not None
                after[path.stem] = [name for _, name in ast.literal_eval(node.value)]

    assert sorted(map(len, after.values())) == [0] + [1] * (len(after) - 1)
    before = [one for named in after.values() for one in named]
    assert len(set(before)) == len(before), "two migrations that follow the same one"
    assert set(before) <= set(after)
