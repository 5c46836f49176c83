"""Terraform: schedules of clouds and clusters, and services with a count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan.facts import Fact, Guard, Launch, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import CHARACTERS_MAX, cron
from onejob.scan.syntax import above, children, limited, line, literal, nodes, parse

if TYPE_CHECKING:
    from ast_grep_py import SgNode

PATTERNS = ("*.tf", "*.tofu", "*.hcl", "*.nomad")

_WORDS = re.compile(r"schedule|recurrence|cron|desired_count|periodic")
#: Resources whose ``schedule`` starts work; elsewhere the word means a backup's or a scaling's.
_SCHEDULED = re.compile(
    r"cloud_scheduler_job|kubernetes_cron_job|cron_trigger|automation_schedule|glue_trigger"
    r"|data_transfer_config|logic_app_trigger_recurrence|container_app_job|dataform|eventarc|pg_cron"
    r"|snowflake_task|databricks_job|render_cron|heroku_scheduler|digitalocean_function_trigger"
)
_PASSED_ON = re.compile(
    r"\b(?:each\.value|lookup\(|try\(|coalesce\(|optional\(|null\b)|^v\.|^var\.$"
)
_EXPRESSION = re.compile(r"(?:rate|cron)\s*\(([^()]*)\)")
#: The grammar looks at each place in a run of blanks again, from each of them.
_BLANK = re.compile(r"[ \t\r\f\v]{100,}")
_EMPTY = re.compile(r"\n{1000}")
_ELEMENTS = ("attribute", "object_elem")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the schedules of a file, and services that say how many of them run."""
    if not _WORDS.search(file.text):
        return
    yield from limited(_schedules(file), file.path)


def _schedules(file: SourceFile) -> Iterator[Fact]:
    if _EMPTY.search(file.text):
        raise RecursionError(file.path)
    root = parse(_BLANK.sub(" ", file.text), "hcl")
    for node in nodes(root, *_ELEMENTS):
        key, value = _pair(node)
        if key == "schedule_expression":
            yield from _trigger(file, node, value, "eventbridge")
        elif key in ("schedule", "schedules", "cron_schedule", "cron") and _scheduling(node):
            yield from _trigger(file, node, value, _kind(node))
        elif key == "crons" and ".nomad" in file.path:
            yield from _trigger(file, node, value, "nomad-periodic")
        elif key == "desired_count" and value.strip().isdigit():
            yield _service(file, node, int(value))


def _pair(node: SgNode) -> tuple[str, str]:
    parts = children(node)
    if len(parts) < 2:
        return "", ""
    return literal(parts[0].text()) or parts[0].text(), parts[1].text()


def _block(node: SgNode) -> SgNode | None:
    """Return the outermost resource or module around a place."""
    found = None
    for each in above(node, "block"):
        found = each
        if children(each) and children(each)[0].text() in ("resource", "module", "data", "job"):
            break
    return found


def _labels(block: SgNode | None) -> list[str]:
    return [literal(part.text()) or part.text() for part in children(block)[:3]] if block else []


def _scheduling(node: SgNode) -> bool:
    labels = _labels(_block(node))
    if len(labels) > 1 and _SCHEDULED.search(labels[1]):
        return True
    inner = [_labels(each)[:1] for each in above(node, "block")]
    return ["periodic"] in inner


def _kind(node: SgNode) -> str:
    labels = _labels(_block(node))
    name = labels[1] if len(labels) > 1 else ""
    if "kubernetes" in name:
        return "k8s-cron-resource"
    return "nomad-periodic" if labels[:1] == ["job"] else "cloud-scheduler"


def _trigger(file: SourceFile, node: SgNode, value: str, kind: str) -> Iterator[Trigger]:
    text = literal(value)
    labels = _labels(_block(node))
    if labels[:1] == ["output"] or labels[:1] == ["variable"]:
        return
    if not text and (_PASSED_ON.search(value) or not re.search(r"[\"\w]", value)):
        return
    if text.startswith("at("):
        return  # once, at an instant: no schedule
    around = _around(node)
    name = _name(node, labels)
    guards = []
    off = re.search(
        r"\bstate\s*=\s*\"DISABLED\"|\b(?:is_)?enabled\s*=\s*false\b|\bpaused\s*=\s*true\b"
        r"|\bsuspend\s*=\s*true\b",
        around,
    )
    if off:
        guards.append(Guard(" ".join(off[0].split()), Verdict.DISABLED, line(node)))
    if re.search(
        r"concurrency_policy\s*=\s*\"(?:Forbid|Replace)\"|prohibit_overlap\s*=\s*true", around
    ):
        guards.append(Guard("concurrency policy", Verdict.NO_OVERLAP, line(node)))
    cluster = kind != "eventbridge" and kind != "cloud-scheduler"
    yield Trigger(
        kind=kind,
        path=file.path,
        line=line(node),
        language="terraform",
        name=name,
        schedule=schedule_text(text) or _from(value),
        guards=tuple(guards),
        alone=Verdict.UNGUARDED if cluster else Verdict.AT_LEAST_ONCE,
        fires="platform",
        why="" if cluster else "the cloud's scheduler delivers each fire time at least once",
        words=(name,),
    )


def schedule_text(text: str) -> str:
    """Return ``every 5m`` of ``rate(5 minutes)``, and what ``cron(...)`` holds."""
    inner = _EXPRESSION.search(text)
    if inner is None:
        return cron(text)
    rate = re.match(r"\s*(\d+)\s+(minute|hour|day)s?\s*$", inner[1])
    if rate:
        return f"every {rate[1]}{rate[2][0]}"
    return " ".join(inner[1].split())[:CHARACTERS_MAX] if "$" not in inner[1] else ""


def _around(node: SgNode) -> str:
    """Return the text of the object or block that a schedule stands in: its siblings."""
    parent = next(above(node, "object", "body"), None)
    text = parent.text() if parent is not None else ""
    block = _block(node)
    if parent is not None and parent.kind() == "body" and block is not None:
        return block.text()
    return text


def _name(node: SgNode, labels: list[str]) -> str:
    for element in above(node, *_ELEMENTS):
        key, _ = _pair(element)
        if key and key not in ("rules", "schedules", "jobs", "inputs"):
            return re.sub(r"[^\w.-]", "", key)[:60]
    return re.sub(r"[^\w.-]", "", labels[-1])[:60] if labels else ""


def _from(value: str) -> str:
    name = re.search(r"(?:var|local|module|data)\.[\w.]+", value)
    return f"from {name[0]}"[:CHARACTERS_MAX] if name else ""


def _service(file: SourceFile, node: SgNode, count: int) -> Launch:
    around = _around(node)
    name = _name(node, _labels(_block(node)))
    once = re.search(r"deployment_maximum_percent\s*=\s*100\b", around) is not None
    return Launch(
        kind="process",
        path=file.path,
        line=line(node),
        language="terraform",
        name=name,
        words=(name,),
        replicas=count,
        rollout="recreate" if once else "rolling",
        reported=False,
        commanded=False,
    )
