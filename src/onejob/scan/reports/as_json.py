"""JSON: one document, ASCII only, so that no terminal obeys what was scanned."""

from __future__ import annotations

import json
from typing import Any

from onejob.scan.engine import Scan


def report(scan: Scan) -> str:
    """Return the document of the API."""
    return json.dumps(document(scan), indent=1)


def document(scan: Scan) -> dict[str, Any]:
    """Return the scan as plain values."""
    return {
        "summary": {
            "triggers": scan.triggers,
            "unguarded": scan.unguarded,
            "files": scan.files,
            "allowed": scan.allowed,
        },
        "findings": [finding.to_json() for finding in scan.findings],
        "notes": [{"path": n.path, "line": n.line, "text": n.text} for n in scan.notes],
    }
