"""What the house has decided about a finding: a comment beside it, or a baseline file.

A comment names the rule and a reason, on the line or on the one above it::

    # onejob: allow in-process-schedule: each replica has a cache of its own
    scheduler.add_job(refresh_cache, "interval", minutes=5)

A baseline holds the findings of one day, without line numbers, so that only new ones count.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onejob.errors import UsageError
from onejob.scan.finding import Finding

VERSION = 1
_ALLOW = re.compile(r"onejob:\s*allow\s+([\w-]+(?:\s*,\s*[\w-]+)*)(?:\s*[:(-]+\s*(\S.*))?")
_CLOSING = re.compile(r"\s*(?:\*/|-->|--%>|%>|\)|\*\))\s*$")


@dataclass(frozen=True, slots=True)
class Allowance:
    """One comment: which rules it allows on its line and the next, and why."""

    path: str
    line: int
    rules: tuple[str, ...]
    reason: str


def allowances(path: str, text: str) -> list[Allowance]:
    """Return the comments of a file that allow something."""
    if "onejob:" not in text:
        return []
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _ALLOW.search(line)
        if match:
            rules = tuple(name.strip().lower() for name in match[1].split(","))
            reason = _CLOSING.sub("", match[2] or "")
            found.append(Allowance(path, number, rules, reason))
    return found


def allowed(finding: Finding, name: str, comments: dict[tuple[str, int], Allowance]) -> bool:
    """Decide whether a comment with a reason allows this finding of the rule ``name``."""
    for line in (finding.line, finding.line - 1):
        comment = comments.get((finding.path, line))
        if comment is not None and comment.reason:
            return name in comment.rules or finding.rule.lower() in comment.rules
    return False


def identity(finding: Finding) -> tuple[str, ...]:
    """Return what stays the same when lines move."""
    return (
        finding.path,
        finding.rule,
        finding.kind,
        finding.name,
        finding.schedule,
        finding.verdict,
    )


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write the findings of today; return how many."""
    known = sorted(identity(finding) for finding in findings)
    document = {"version": VERSION, "findings": [list(each) for each in known]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    return len(known)


def read_baseline(path: Path) -> Counter[tuple[str, ...]]:
    """Read what was known; UsageError where the file is no baseline."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != VERSION:
            raise ValueError(document["version"])
        return Counter(tuple(map(str, each)) for each in document["findings"])
    except OSError as error:
        raise UsageError(
            f"cannot read the baseline {path}: {error.strerror}. Write one: "
            f"onejob scan --write-baseline {path}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is no baseline of this version. Write it again: "
            f"onejob scan --write-baseline {path}"
        ) from error


def new_ones(findings: Iterable[Finding], known: Counter[tuple[str, ...]]) -> list[Finding]:
    """Return the findings that the baseline does not have, counting equals."""
    left = Counter(known)
    new = []
    for finding in findings:
        name = identity(finding)
        if left[name] > 0:
            left[name] -= 1
        else:
            new.append(finding)
    return new
