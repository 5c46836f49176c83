"""Readers of files: one module or package for each kind of file. They state facts, and never judge.

A source has ``PATTERNS``, the names of the files it reads, and ``read(file)``, which yields facts.
It is found by standing here; there is no list to add it to. Patterns are lower case: ``*.py``,
``dockerfile*``, ``*/cron.d/*`` (with a slash: the whole path), ``#!sh`` (the first line's program,
for files without an extension). A file may be read by several sources.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from importlib import import_module

from onejob.scan.facts import Fact
from onejob.scan.reading import SourceFile

Read = Callable[[SourceFile], Iterable[Fact]]


@dataclass(frozen=True, slots=True)
class Source:
    """One reader, and the names of the files it is for."""

    name: str
    extensions: frozenset[str]
    programs: frozenset[str]
    names: re.Pattern[str] | None
    paths: re.Pattern[str] | None
    read: Read

    def takes(self, path: str, program: str) -> bool:
        """Decide by the lower-case path, and by the program of a ``#!`` line."""
        name = path.rpartition("/")[2]
        dot = name.rfind(".")
        return (
            (dot >= 0 and name[dot:] in self.extensions)
            or program in self.programs
            or (self.names is not None and self.names.fullmatch(name) is not None)
            or (self.paths is not None and self.paths.fullmatch("/" + path) is not None)
        )


@lru_cache(maxsize=1)
def all_sources() -> tuple[Source, ...]:
    """Return every reader that stands in this package."""
    return tuple(
        _source(module.name, import_module(f"{__name__}.{module.name}"))
        for module in pkgutil.iter_modules(__path__)
        if not module.name.startswith("_")
    )


def _source(name: str, module: object) -> Source:
    patterns: tuple[str, ...] = module.PATTERNS  # type: ignore[attr-defined]
    read: Read = module.read  # type: ignore[attr-defined]
    extensions = {p[1:] for p in patterns if re.fullmatch(r"\*\.\w+", p)}
    programs = {p[2:] for p in patterns if p.startswith("#!")}
    rest = [p for p in patterns if p[1:] not in extensions and not p.startswith("#!")]
    names = [p for p in rest if "/" not in p]
    paths = [p if p.startswith("*") else "/" + p for p in rest if "/" in p]
    return Source(name, frozenset(extensions), frozenset(programs), _any(names), _any(paths), read)


def _any(patterns: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(translate, patterns))) if patterns else None
