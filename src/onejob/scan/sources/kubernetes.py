"""Kubernetes manifests, Helm templates among them: CronJobs, and what keeps how many replicas.

The line of a CronJob is its ``kind:``; that of a Deployment its ``replicas:``, where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from onejob.scan.command import number, started
from onejob.scan.facts import Fact, Guard, Launch, Setting, Smell, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.launching import Place, launches
from onejob.scan.manifest import Node, documents
from onejob.scan.prefixed import guarded_by_us
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import cron, never
from onejob.scan.sources.shell import created_jobs

PATTERNS = ("*.yaml", "*.yml", "*.yaml.*", "*.yml.*", "*.tpl", "*.json")

_KINDS = re.compile(
    r"[\"']?kind[\"']?\s*:\s*[\"']?(CronJob|Deployment|StatefulSet|DaemonSet|HorizontalPodAutoscaler"
    r"|CronWorkflow|DeploymentConfig|ScaledObject|ReplicaSet|Rollout|PingSource|ScheduledWorkflow"
    r"|Service|List|Template)\b"
)
SHORTEST_DEADLINE_SECONDS = 10
_COMMAND = ("command", "args")
_CHOSEN = ("suspend", "schedule", "concurrencyPolicy")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the triggers and launches of every document."""
    if not _KINDS.search(file.text):
        yield from created_jobs(file, "kubernetes")
        return
    facts: list[Fact] = []
    scaled: dict[str, str] = {}
    for document in _objects(documents(file.text)):
        match document.get("kind"):
            case "CronJob" | "CronWorkflow" | "ScheduledWorkflow" | "PingSource" if document.at(
                "spec"
            ):
                facts += _cron_job(file, document)
            case "Deployment" | "DeploymentConfig" | "Rollout" | "StatefulSet" | "DaemonSet":
                facts += _workload(file, document)
            case "Service" if "knative" in document.get("apiVersion"):
                facts += _workload(file, document)
            case "HorizontalPodAutoscaler" | "ScaledObject":
                target = document.get("spec", "scaleTargetRef", "name")
                scaled[target] = document.get("spec", "maxReplicas") or document.get(
                    "spec", "maxReplicaCount"
                )
                yield Setting(f"k8s.autoscaled.{target}", scaled[target], file.path, document.line)
            case _:
                pass
    for fact in facts:
        if isinstance(fact, Launch) and fact.name in scaled:
            most = number(scaled[fact.name])[0]
            fact = replace(fact, autoscaled=True, replicas=most, verdict=Verdict.MULTIPLIER)
        yield fact
    yield from created_jobs(file, "kubernetes")


def _objects(found: list[Node]) -> Iterator[Node]:
    for document in found:
        listed = document.at("items") or document.at("objects")
        if document.get("kind") in ("List", "Template") and listed is not None:
            yield from listed.items
        else:
            yield document


def _cron_job(file: SourceFile, document: Node) -> Iterator[Fact]:
    line = document.line_of("kind")
    spec = document.at("spec") or Node(line)
    schedule, computed = _schedule(spec)
    value = re.search(r"\.Values\.([\w.]+)", spec.get("schedule"))
    pod = spec.at("jobTemplate", "spec", "template", "spec")
    yield Trigger(
        kind="k8s-cronjob" if document.get("kind") == "CronJob" else "k8s-cron-resource",
        path=file.path,
        line=line,
        language="kubernetes",
        name=_plain(document.get("metadata", "name")),
        schedule=schedule or (f"from {value[1]}"[:60] if value else ""),
        target=" ".join(_command_words(pod)),
        guards=(*_ours(pod), *_cron_guards(spec, schedule)),
        fires="platform",
        why="the controller may start it twice for one fire time, and lets two runs overlap",
        words=(document.get("metadata", "name"), *_images(pod)),
        values=tuple((key, name) for key in _CHOSEN if (name := _value_of(spec.get(key)))),
        confidence="medium" if computed else "high",
    )
    deadline = spec.get("startingDeadlineSeconds")
    if deadline.isdigit() and int(deadline) < SHORTEST_DEADLINE_SECONDS:
        yield Smell(
            kind="short-cronjob-deadline",
            path=file.path,
            line=spec.line_of("startingDeadlineSeconds"),
            language="kubernetes",
            name=_plain(document.get("metadata", "name")),
            why=f"a deadline of {int(deadline)} s is shorter than the 10 s between looks of the "
            "controller: runs may never start",
        )


def _schedule(spec: Node) -> tuple[str, bool]:
    node = spec.at("schedule") or spec.at("schedules") or Node(0)
    texts = [text for text in node.texts if text]
    plain = " and ".join(filter(None, (cron(text) for text in texts)))
    return plain, bool(texts) and not plain


def _ours(pod: Node | None) -> Iterator[Guard]:
    """See a command that runs under onejob."""
    for container in _containers(pod):
        texts = [text for key in _COMMAND for text in (container.at(key) or Node(0)).texts]
        line = next((container.line_of(key) for key in _COMMAND if container.at(key)), 0)
        ours = guarded_by_us(started(texts), line)
        if ours is not None:
            yield ours


def _cron_guards(spec: Node, schedule: str) -> Iterator[Guard]:
    for key in _CHOSEN:
        text = schedule if key == "schedule" else spec.get(key)
        yield from chosen(key, text, spec.line_of(key))


def chosen(key: str, text: str, line: int) -> Iterator[Guard]:
    """Return what a value of a CronJob keeps from happening."""
    if key == "suspend" and text.lower() == "true":
        yield Guard("suspend: true", Verdict.DISABLED, line)
    elif key == "schedule" and text and never(text):
        yield Guard(text, Verdict.NEVER, line)
    elif key == "concurrencyPolicy" and text in ("Forbid", "Replace"):
        why = {
            "Forbid": "keeps two from running at once; one fire time may still start twice, and a "
            "long run swallows the next",
            "Replace": "ends the run that is under way; what it had done stays done",
        }[text]
        yield Guard(f"concurrencyPolicy: {text}", Verdict.NO_OVERLAP, line, why)


def _workload(file: SourceFile, document: Node) -> Iterator[Fact]:
    kind = document.get("kind")
    spec = document.at("spec") or Node(document.line)
    line = spec.line_of("replicas") if "replicas" in spec.entries else document.line_of("kind")
    pod = spec.at("template", "spec") or Node(line)
    name = document.get("metadata", "name")
    replicas = _replicas(kind, spec)
    strategy = spec.get("strategy", "type") or spec.get("strategy")
    surge = spec.get("strategy", "rollingUpdate", "maxSurge")
    recreate = (
        strategy == "Recreate" or surge in ("0", "0%") or kind in ("StatefulSet", "DaemonSet")
    )
    containers = pod.at("containers") or Node(line)
    for container in containers.items[:20]:
        command = [text for key in _COMMAND for text in (container.at(key) or Node(0)).texts]
        container_name = container.get("name")
        yield from launches(
            command,
            Place(
                path=file.path,
                line=line,
                language="kubernetes",
                name=_plain(name) or _plain(container_name),
                words=(name, container_name, *_image(container)),
                replicas=replicas,
                rollout="recreate" if recreate else "rolling",
                replicas_from=_value_of(spec.get("replicas")),
            ),
        )


def _replicas(kind: str, spec: Node) -> int | None:
    if kind == "DaemonSet":
        return None
    given = spec.get("replicas")
    if not given:
        # Absent means one, unless a template or an autoscaler leaves it out on purpose.
        return 1
    return number(given)[0]


def _value_of(text: str) -> str:
    """Return the chart's value that a template names: ``{{ .Values.web.replicas }}``."""
    match = re.search(r"\$?\.Values\.([\w.]+)", text)
    return match[1] if match and text.strip(" \"'").startswith("{{") else ""


def _command_words(pod: Node | None) -> list[str]:
    containers = _containers(pod)
    if not containers:
        return []
    texts = (containers[0].at("command") or Node(0)).texts
    return [text for text in texts[:1] if re.fullmatch(r"[\w./-]{1,60}", text)]


def _images(pod: Node | None) -> tuple[str, ...]:
    return tuple(_image(each)[0] for each in _containers(pod)[:5])


def _containers(pod: Node | None) -> list[Node]:
    found = pod.at("containers") if pod is not None else None
    return found.items if found is not None else []


def _image(container: Node) -> tuple[str, ...]:
    text = re.sub(r"\{\{.*?\}\}", "", container.get("image"))
    return (text.partition("@")[0].rpartition("/")[2].partition(":")[0],)


def _plain(text: str) -> str:
    """Return a name without the template in it."""
    name = re.sub(r"\{\{.*?\}\}|<%.*?%>|\$\{.*?\}", "", text).strip("-_. \"'")
    return re.sub(r"[^\w.-]", "", name)[:60]
