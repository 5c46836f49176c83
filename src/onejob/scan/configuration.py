"""What the house has written down: ``[tool.onejob.scan]`` in pyproject.toml, or .onejob.toml.

::

    [tool.onejob.scan]
    # decorators, annotations and functions of the house
    guards = ["TaskLock", "single_instance"]
    exclude = ["legacy/*"]
    fail-on = "weak-guard"
    baseline = ".onejob-baseline.json"
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onejob.errors import UsageError
from onejob.scan.finding import UNGUARDED, Finding, Verdict

NOTHING = "none"
_KEYS = ("guards", "exclude", "only", "fail-on", "baseline")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file says; the command line has the last word."""

    guards: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    fail_on: str = "unguarded"
    baseline: str = ""


def configured(directory: Path) -> Configuration:
    """Read the configuration of a directory; UsageError where a line in it cannot be meant."""
    for name, keys in ((".onejob.toml", ("scan",)), ("pyproject.toml", ("tool", "onejob", "scan"))):
        file = directory / name
        if file.is_file():
            found = _table(file, keys)
            if found:
                return _configuration(file, found)
    return Configuration()


def _table(file: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        found: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        if file.name == "pyproject.toml":
            return {}  # another tool's file: its errors are for that tool to tell
        raise UsageError(f"{file} cannot be read as TOML: {error}") from error
    for key in keys:
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _configuration(file: Path, found: dict[str, Any]) -> Configuration:
    unknown = sorted(set(found) - set(_KEYS))
    if unknown:
        raise UsageError(f"{file}: no setting {unknown[0]!r}. There are: {', '.join(_KEYS)}")
    return Configuration(
        guards=_names(file, found, "guards"),
        exclude=_names(file, found, "exclude"),
        only=_names(file, found, "only"),
        fail_on=_text(file, found, "fail-on", "unguarded"),
        baseline=_text(file, found, "baseline", ""),
    )


def _names(file: Path, found: dict[str, Any], key: str) -> tuple[str, ...]:
    value = found.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"{file}: {key} must be a list of texts")
    return tuple(value)


def _text(file: Path, found: dict[str, Any], key: str, default: str) -> str:
    value = found.get(key, default)
    if not isinstance(value, str):
        raise UsageError(f"{file}: {key} must be a text")
    return value


def failing(fail_on: str) -> frozenset[Verdict]:
    """Return the verdicts that make the exit code 1: the one named, and all that are worse."""
    name = fail_on.strip().upper().replace("_", "-")
    if name == NOTHING.upper():
        return frozenset()
    if name == Verdict.UNGUARDED:
        return UNGUARDED
    if name not in list(Verdict):
        known = ", ".join(verdict.lower() for verdict in Verdict)
        raise UsageError(f"no verdict {fail_on!r}. There are: {known}, {NOTHING}")
    least = Verdict(name)
    return frozenset(verdict for verdict in Verdict if verdict.rank <= least.rank)


def any_failing(findings: tuple[Finding, ...], verdicts: frozenset[Verdict]) -> bool:
    """Decide whether a finding is bad enough."""
    return any(finding.verdict in verdicts for finding in findings)
