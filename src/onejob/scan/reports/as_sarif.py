"""SARIF 2.1.0: what code hosts show beside the lines of a change."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

from onejob.scan.engine import Scan
from onejob.scan.finding import UNGUARDED, Finding, Related, Verdict
from onejob.scan.registry import Rule, all_rules
from onejob.scan.suppress import identity

_ERROR = UNGUARDED
_NOTE_FROM = Verdict.CONSUMER.rank


def report(scan: Scan) -> str:
    """Return one SARIF log with one run."""
    rules = all_rules()
    codes = [rule.code for rule in rules]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "onejob scan", "rules": [_rule(r) for r in rules]}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(f, codes.index(f.rule)) for f in scan.findings],
            }
        ],
    }
    return json.dumps(log, indent=1)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": f"{rule.code} {rule.name}"},
        "help": {"text": rule.page},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    text = f"{finding.verdict}: {finding.reason}."
    if finding.advice:
        text += f" {finding.advice}"
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": level(finding.verdict),
        "message": {"text": text},
        "locations": [_place(finding.path, finding.line)],
        "relatedLocations": [_related(each, i) for i, each in enumerate(finding.related)],
        "partialFingerprints": {"onejob/v1": fingerprint(finding)},
        "properties": {
            "verdict": str(finding.verdict),
            "role": finding.role,
            "kind": finding.kind,
            "confidence": finding.confidence,
        },
    }


def level(verdict: Verdict) -> str:
    """Return how loud it is."""
    if verdict in _ERROR:
        return "error"
    return "note" if verdict.rank >= _NOTE_FROM else "warning"


def fingerprint(finding: Finding) -> str:
    """Return what names the finding when its line has moved."""
    return hashlib.sha256(json.dumps(identity(finding)).encode()).hexdigest()[:32]


def _place(path: str, line: int) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(path)},
            "region": {"startLine": max(1, line)},
        }
    }


def _related(related: Related, index: int) -> dict[str, Any]:
    return {
        "id": index,
        "message": {"text": related.what or "see also"},
        **_place(related.path, related.line),
    }
