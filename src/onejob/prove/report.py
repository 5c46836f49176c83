"""What was tried, as text: never "proved"."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from onejob.prove.faults import CommandFault, Fault, show
from onejob.prove.verdict import Standing, Verdict


@dataclass(slots=True)
class Tally:
    """Counts over many plays."""

    plays: int = 0
    commands: int = 0
    failed: int = 0
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    standings: Counter[tuple[str, Standing]] = field(default_factory=Counter)

    def add(self, verdicts: Iterable[Verdict], injected: Iterable[Fault], commands: int) -> None:
        """Count one play."""
        verdicts = list(verdicts)
        self.plays += 1
        self.commands += commands
        self.failed += any(verdict.standing is not Standing.VALID for verdict in verdicts)
        self.faults.update(map(pair, injected))
        self.standings.update((verdict.promise, verdict.standing) for verdict in verdicts)

    def merge(self, other: Tally) -> None:
        """Add another's counts."""
        self.plays += other.plays
        self.commands += other.commands
        self.failed += other.failed
        self.faults += other.faults
        self.standings += other.standings

    def table(self, seconds: float) -> str:
        """Return the tables: faults by (command, fault), verdicts by promise, and the pace."""
        commands = sorted({command for command, _ in self.faults})
        wrongs = sorted({wrong for _, wrong in self.faults})
        width = max(map(len, commands), default=0)
        heads = "  ".join(f"{wrong:>13}" for wrong in wrongs)
        lines = [f"{'injected':{width}}  {heads}"]
        for command in commands:
            counts = "  ".join(f"{self.faults[command, wrong] or '':>13}" for wrong in wrongs)
            lines.append(f"{command:{width}}  {counts}")
        promises = list(dict.fromkeys(promise for promise, _ in self.standings))
        lines += ["", f"{'promise':44}  {'valid':>8}  {'violated':>8}  {'unknown':>8}"]
        for promise in promises:
            counted = [
                self.standings[promise, standing]
                for standing in (Standing.VALID, Standing.VIOLATED, Standing.UNKNOWN)
            ]
            lines.append(f"{promise:44}  " + "  ".join(f"{count:>8}" for count in counted))
        total = sum(self.faults.values())
        lines += [
            "",
            f"{self.plays:,} plays, {self.commands:,} commands carried out, {total:,} faults "
            f"injected, {self.failed} plays failed, in {seconds:.1f} s "
            f"({self.plays / max(seconds, 0.001):.1f} plays/s; "
            f"onejob {version('onejob')}{_commit()}, Python {platform.python_version()})",
        ]
        return "\n".join(lines) + "\n"


def _commit() -> str:
    """Name the commit where this is a work tree of one."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:  # no git here
        return ""
    return f" at {found.stdout.strip()}" if found.returncode == 0 else ""


def pair(fault: Fault) -> tuple[str, str]:
    """Name a fault by its command (or where else it strikes) and its kind."""
    if isinstance(fault, CommandFault):
        return fault.command, fault.wrong.value
    return "(process or store)", fault.ill.value


def failure(seed: int, verdicts: Sequence[Verdict], faults: Sequence[Fault]) -> str:
    """Say which seed failed, in what, and under which faults at least."""
    lines = [f"seed {seed}"]
    lines += [
        f"  {v.promise}: {v.standing.name.lower()} at {v.at / 1e6:.3f} s: {v.why}" for v in verdicts
    ]
    lines += [f"    {show(fault)}" for fault in faults[:40]]
    if len(faults) > 40:
        lines.append(f"    … and {len(faults) - 40} more")
    return "\n".join(lines) + "\n\n"
