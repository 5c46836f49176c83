"""How right the scanner is, on public repositories that were read by hand.

    python -m benchmarks.scan_truth CHECKOUTS [--truth CSV] [--only NAME] [--misses]

``scan_truth.csv`` beside this file lists for each repository, at a commit, what triggers, launches
and CI schedules are in it, and what looks like one and is none. CHECKOUTS has a directory
``owner+name`` for each repository, checked out at that commit by whoever runs this; none of their
files are part of this project.

Per repository: triggers found (recall, line within 3), how many reported ones are right
(precision), how many look-alikes were reported (false alarms), and how often the verdict agrees.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from onejob.scan import Finding, scan

LINES_APART_MAX = 3
TRUTH = Path(__file__).with_suffix(".csv")

#: Verdicts of people, in the words of the scanner: any of these agrees.
SAME = {
    "UNGUARDED": {"UNGUARDED"},
    "UNGUARDED + PER-PROCESS-SCHEDULE": {"PER-PROCESS-SCHEDULE", "UNGUARDED"},
    "PARTIAL": {"WEAK-GUARD"},
    "GUARDED": {"GUARDED"},
    "GUARDED (custom; weak release)": {"GUARDED", "WEAK-GUARD"},
    "NEVER/MANUAL": {"NEVER", "DISABLED"},
    "SECOND": {"UNGUARDED", "NO-OVERLAP", "AT-LEAST-ONCE"},
    "per": {"UNGUARDED", "HOST-ONLY"},
    "NO-GUARD": {"UNGUARDED"},
    "CI": {"CI", "NO-OVERLAP"},
}


@dataclass(frozen=True)
class Row:
    """One line of the truth."""

    path: str
    line: int
    role: str
    verdict: str

    def agrees(self, finding: Finding) -> bool:
        """Decide whether the finding has this verdict's class."""
        first = self.verdict.split()[0]
        meant = SAME.get(self.verdict) or SAME.get(first) or {first}
        return str(finding.verdict) in meant


@dataclass
class Score:
    """What one repository gave, by role."""

    wanted: int = 0
    found: int = 0
    reported: int = 0
    wrong: int = 0
    negatives: int = 0
    alarms: int = 0
    agreed: int = 0
    judged: int = 0
    launches: int = 0
    launches_found: int = 0
    misses: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Add the counts of another repository."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def line(self, name: str) -> str:
        """Return the score as a row."""
        return (
            f"{name:44} recall {share(self.found, self.wanted)}  "
            f"precision {share(self.reported - self.wrong, self.reported)}  "
            f"false alarms {self.alarms}/{self.negatives}  "
            f"verdicts {share(self.agreed, self.judged)}  "
            f"launches {self.launches_found}/{self.launches}"
        )


def share(part: int, whole: int) -> str:
    """Return a part of a whole, with the counts."""
    return f"{part / whole:4.0%} {part}/{whole}".ljust(11) if whole else "  -".ljust(11)


def score(rows: list[Row], findings: Iterable[Finding]) -> Score:
    """Compare what was found with what is there; each finding answers for one row."""
    result = Score()
    left = [finding for finding in findings if finding.role != "smell"]
    for role in ("trigger", "CI", "launch"):
        for row in [row for row in rows if row.role == role]:
            finding = nearest(row, left)
            if role == "launch":
                result.launches += 1
                result.launches_found += finding is not None
            elif role == "trigger":
                result.wanted += 1
                result.found += finding is not None
                result.reported += finding is not None
            if finding is None:
                result.misses.append(f"missed {role} {row.path}:{row.line} ({row.verdict})")
                continue
            left.remove(finding)
            result.judged += 1
            result.agreed += row.agrees(finding)
            if not row.agrees(finding):
                result.misses.append(
                    f"verdict {finding.verdict} of {row.path}:{row.line} should be {row.verdict}"
                )
    for row in [row for row in rows if row.role == "negative"]:
        result.negatives += 1
        result.alarms += nearest(row, left) is not None
    for finding in left:
        if finding.role in ("trigger", "consumer"):
            result.reported += 1
            result.wrong += 1
            result.misses.append(
                f"extra {finding.path}:{finding.line} {finding.kind} {finding.verdict}"
            )
    return result


def nearest(row: Row, findings: list[Finding]) -> Finding | None:
    """Return the closest finding that may answer for a row."""
    roles = {
        "trigger": ("trigger", "consumer"),
        "CI": ("ci",),
        "launch": ("launch",),
        "negative": ("trigger", "consumer", "ci", "launch"),
    }[row.role]
    close = [
        finding
        for finding in findings
        if finding.path == row.path
        and abs(finding.line - row.line) <= LINES_APART_MAX
        and finding.role in roles
    ]
    return min(close, key=lambda f: (abs(f.line - row.line), not row.agrees(f)), default=None)


def truth(file: Path) -> dict[str, list[Row]]:
    """Read the rows by repository."""
    rows: dict[str, list[Row]] = {}
    with file.open(newline="", encoding="utf-8") as opened:
        for each in csv.DictReader(opened):
            row = Row(each["path"], int(each["line"]), each["role"], each["verdict"])
            rows.setdefault(each["repo"], []).append(row)
    return rows


def main() -> None:
    """Score every repository that has a checkout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--truth", type=Path, default=TRUTH)
    parser.add_argument("--only", default="", help="repositories whose name contains this")
    parser.add_argument("--misses", action="store_true", help="list what was missed or wrong")
    given = parser.parse_args()
    total = Score()
    for repository, rows in truth(given.truth).items():
        checkout = given.checkouts / repository.replace("/", "+")
        if given.only not in repository:
            continue
        if not checkout.is_dir():
            print(f"{repository:44} not checked out: not scored")
            continue
        result = score(rows, scan(checkout).findings)
        print(result.line(repository))
        if given.misses:
            for miss in result.misses:
                print(f"    {miss}")
        total.add(result)
    print(total.line("all"))


if __name__ == "__main__":
    main()
