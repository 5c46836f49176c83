"""What there is to check: the files of the project, and how they are read."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "onejob"
SQL = SOURCE / "stores" / "sql"
TESTS = ROOT / "tests"

_STATEMENT = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_REMARK = re.compile(r"--[^\n]*")


def place(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def python_files(directory: Path) -> Iterator[Path]:
    return (file for file in sorted(directory.rglob("*.py")) if "__pycache__" not in file.parts)


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def tracked_files() -> list[Path]:
    """Every file that git knows and that is text; a file deleted and not yet committed is gone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file for file in files if file.is_file() and b"\0" not in file.read_bytes()]


def statements(file: Path) -> dict[str, str]:
    """The named statements of a .sql file, with their comments."""
    parts = _STATEMENT.split(file.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def bare(statement: str) -> str:
    """A statement without comments, spaces between words made one: what a database would see."""
    return " ".join(_REMARK.sub("", statement).split())
