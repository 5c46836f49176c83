"""JSON: one document, ASCII only, so that no terminal obeys what was scanned."""

from __future__ import annotations

import json
from typing import Any

from onejob.core.time import Instant, text
from onejob.scan.engine import Scan
from onejob.scan.schedules import next_fires


def report(scan: Scan, now: Instant | None = None) -> str:
    """Return the document of the API; with an instant, also the next fire times after it."""
    return json.dumps(document(scan, now), indent=1)


def document(scan: Scan, now: Instant | None) -> dict[str, Any]:
    """Return the scan as plain values."""
    findings = [finding.to_json() for finding in scan.findings]
    for finding in findings if now is not None else ():
        fires = next_fires(finding["schedule"], now) if now is not None else ()
        finding["next"] = [text(fire) for fire in fires]
    return {
        "summary": {
            "triggers": scan.triggers,
            "unguarded": scan.unguarded,
            "files": scan.files,
            "allowed": scan.allowed,
        },
        "findings": findings,
        "notes": [{"path": n.path, "line": n.line, "text": n.text} for n in scan.notes],
    }
