"""Addresses of a transaction pooler: behind one, a session's lock belongs to nobody.

Of the address nothing but its line is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from onejob.scan.facts import Fact, Setting
from onejob.scan.pooling import POOLER
from onejob.scan.reading import SourceFile

PATTERNS = ("*.py", "*.js", "*.ts", "*.yml", "*.yaml", "*.toml", "*.ini", "*.cfg", "*.env", ".env*")
_ADDRESS = re.compile(
    r"postgres(?:ql)?(?:\+\w+)?://[^\s\"']{0,200}(?::6432\b|pgbouncer|pooler|:6543\b)"
    r"|(?:DB|PG|POSTGRES|DATABASE)_?(?:HOST|PORT)\w*['\"]?\s*[:=]\s*['\"]?(?:[\w.-]*(?:pgbouncer|pooler)|6432\b)",
    re.IGNORECASE,
)


def read(file: SourceFile) -> Iterable[Fact]:
    """State where a pooler's address stands."""
    low = file.text.lower()
    if "6432" not in low and "6543" not in low and "bouncer" not in low and "pooler" not in low:
        return
    for number, line in enumerate(file.lines, start=1):
        if _ADDRESS.search(line[:500]):
            yield Setting(POOLER, "", file.path, number)
            return
