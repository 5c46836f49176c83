"""Schedules of build services: GitHub Actions, GitLab CI, CircleCI, Azure Pipelines, Jenkins.

A workflow that builds and tests is CI. One that runs a program of the repository with credentials
of its own is a job that lives in CI, and is reported as a trigger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.command import started
from onejob.scan.facts import Fact, Guard, Trigger
from onejob.scan.finding import Role, Verdict
from onejob.scan.manifest import Node, documents
from onejob.scan.prefixed import guarded_by_us
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import cron, never

PATTERNS = (
    "*/.github/workflows/*.yml",
    "*/.github/workflows/*.yaml",
    "*/.gitea/workflows/*.y*ml",
    "*/.forgejo/workflows/*.y*ml",
    "*.gitlab-ci.yml",
    "*/.gitlab/ci/*.yml",
    "*/.circleci/config.yml",
    "azure-pipelines*.yml",
    "azure-pipelines*.yaml",
    "jenkinsfile*",
    "*.jenkinsfile",
)

ENTRIES_MAX = 50
_BUILDS = re.compile(
    r"codeql|pytest|\btox\b|\blint\b|\btests?\b|golangci|eslint|coverage|actions/stale|renovate"
    r"|dependabot|docker/build-push|trivy|snyk|semgrep|cargo (?:test|build|audit)|go test|mvn "
    r"|gradle|npm (?:test|audit)|pre-commit"
    r"|create-pull-request|git push|gh (?:pr|issue|release|workflow)"
    r"|\brelease\b|goreleaser|lighthouse|scorecard|\bstale\b|labeler",
    re.IGNORECASE,
)
_RUNS = re.compile(
    r"(?m)^\s*(?:-\s*run:\s*)?(?:run:\s*)?(?:[A-Z_]+=\S+\s+)*"
    r"(?:exec |poetry run |uv run |pipenv run |time )*"
    r"(?:python[\d.]*\s+(?:-[mu]\s+)*[\w./-]*[\w/]+(?:\.py)?\b"
    r"|node\s+[\w./-]+\.[cm]?js|ruby\s+[\w./-]+\.rb"
    r"|go run\s+\S+|php\s+\S+|bundle exec (?:rake|rails)|Rscript\s+\S+|\./[\w./-]+\.(?:sh|py))"
)
_PREPARES = re.compile(
    r"python[\d.]*\s+-m\s+(?:pip|venv|build|pytest|unittest|mypy|ruff|tox)|setup\.py"
)
_SECRETS = re.compile(r"secrets\.(?!GITHUB_TOKEN\b)\w+")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the schedules of a pipeline."""
    low = file.path.lower()
    if "jenkinsfile" in low:
        yield from _jenkins(file)
        return
    if not re.search(r"schedule|cron", file.text):
        return
    for document in documents(file.text):
        if "workflows/" in low:
            yield from _workflow(file, document)
        elif "gitlab" in low:
            yield from _gitlab(file, document)
        else:
            yield from _crons(
                file, document, "circleci" if "circleci" in low else "azure-pipelines"
            )


def _workflow(file: SourceFile, document: Node) -> Iterator[Trigger]:
    schedule = document.at("on", "schedule") or document.at("true", "schedule")
    if schedule is None:
        return
    ours = _ours(document) if "onejob" in file.text and not _programs(file.text) else ()
    role = "trigger" if ours else _role(file.text)
    guards = (*ours, *_concurrency(document))
    for item in schedule.items[:ENTRIES_MAX]:
        text = cron(item.get("cron"))
        never_guard = (Guard(text, Verdict.NEVER, item.line),) if text and never(text) else ()
        yield Trigger(
            kind="github-actions",
            path=file.path,
            line=item.line,
            language="github-actions",
            name=document.get("name")[:60] or file.name,
            schedule=text,
            guards=(*never_guard, *guards),
            alone=Verdict.CI if role == "ci" else Verdict.UNGUARDED,
            role=role,
            fires="platform",
            why=""
            if role == "ci"
            else "no concurrency group: two runs may overlap, and the platform may drop one",
        )


def _role(text: str) -> Role:
    if _programs(text) and _SECRETS.search(text) and not _BUILDS.search(_without_comments(text)):
        return "trigger"
    return "ci"


def _programs(text: str) -> list[str]:
    return [match[0] for match in _RUNS.finditer(text) if not _PREPARES.search(match[0])]


def _ours(document: Node) -> tuple[Guard, ...]:
    """See steps that run under onejob, where no other step runs a program of the repository."""
    steps = (node for key, node, _ in document.walk() if key == "run")
    found = (guarded_by_us(started(node.text), node.line) for node in steps)
    return tuple(guard for guard in found if guard is not None)


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)(?:^|\s)#.*$", "", text)


def _concurrency(document: Node) -> Iterator[Guard]:
    node = document.at("concurrency")
    if node is None:
        jobs = document.at("jobs") or Node(0)
        found = [job.at("concurrency") for job in jobs.entries.values()]
        node = found[0] if found and all(each is not None for each in found) else None
    if node is not None:
        why = "keeps two runs from overlapping; it does not make one fire time run once"
        yield Guard("concurrency", Verdict.NO_OVERLAP, max(1, node.line), why)


def _gitlab(file: SourceFile, document: Node) -> Iterator[Trigger]:
    for name, job in list(document.entries.items())[:500]:
        line = _scheduled(job)
        if line and not name.startswith(".") and name not in ("workflow", "default", "variables"):
            resource = job.get("resource_group")
            guards = (
                (Guard("resource_group", Verdict.NO_OVERLAP, job.line_of("resource_group")),)
                if resource
                else ()
            )
            yield Trigger(
                kind="gitlab-schedule",
                path=file.path,
                line=line,
                language="gitlab-ci",
                name=name[:60],
                schedule="by a pipeline schedule of the project",
                guards=guards,
                alone=Verdict.CI,
                role="ci",
                fires="platform",
            )


def _scheduled(job: Node) -> int:
    for key, node, _ in job.walk():
        if key == "-" and node.text == "schedules":
            return node.line
        if key == "only" and node.text == "schedules":
            return node.line
        if key == "if" and re.search(r"PIPELINE_SOURCE\s*==\s*[\"']schedule[\"']", node.text):
            return node.line
    return 0


def _crons(file: SourceFile, document: Node, kind: str) -> Iterator[Trigger]:
    for key, node, parent in document.walk():
        text = cron(node.text) if key == "cron" else ""
        if text:
            name = (parent.get("displayName") if parent is not None else "") or file.name
            yield Trigger(
                kind=kind,
                path=file.path,
                line=node.line,
                language=kind,
                name=name[:60],
                schedule=text,
                alone=Verdict.CI,
                role="ci",
                fires="platform",
            )


_JENKINS = re.compile(r"\b(?:cron|pollSCM|parameterizedCron)\s*\(?\s*[\"']{1,3}\s*([^\"'\n]+)")


def _jenkins(file: SourceFile) -> Iterator[Trigger]:
    for number, text in enumerate(file.lines, start=1):
        match = _JENKINS.search(text)
        if match and not text.lstrip().startswith(("//", "*")) and cron(match[1]):
            yield Trigger(
                kind="jenkins",
                path=file.path,
                line=number,
                language="groovy",
                name=file.name,
                schedule=cron(match[1]),
                alone=Verdict.CI,
                role="ci",
                fires="platform",
            )
