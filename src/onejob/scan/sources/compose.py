"""Docker Compose files and Swarm stacks: services, their commands and their scale."""

from __future__ import annotations

from collections.abc import Iterator

from onejob.scan.command import number
from onejob.scan.facts import Fact, Setting
from onejob.scan.launching import Place, launches
from onejob.scan.manifest import Node, documents
from onejob.scan.reading import SourceFile

PATTERNS = (
    "docker-compose*.yml",
    "docker-compose*.yaml",
    "compose*.yml",
    "compose*.yaml",
    "*compose.yml",
    "*compose.yaml",
    "*stack.yml",
    "*stack.yaml",
    "docker-compose*.yml.*",
    "docker-compose*.yaml.*",
)

SERVICES_MAX = 500


def read(file: SourceFile) -> Iterator[Fact]:
    """Return one launch for each service."""
    for document in documents(file.text):
        services = document.at("services")
        if services is None:
            continue
        for name, service in list(services.entries.items())[:SERVICES_MAX]:
            yield from _service(file, name, service)


def _service(file: SourceFile, name: str, service: Node) -> Iterator[Fact]:
    key = next((key for key in ("command", "entrypoint") if key in service.entries), "")
    line = service.line_of(key) if key else service.line
    command: list[str] = []
    for part in ("entrypoint", "command"):
        node = service.at(part)
        if node is not None:
            command += node.texts if node.items else ["sh", "-c", node.text] if node.text else []
            if part == "entrypoint" and not node.items and service.at("command") is not None:
                command = ["sh", "-c", f"{node.text} {' '.join(service.entries['command'].texts)}"]
                break
    replicas = _replicas(service)
    order = service.get("deploy", "update_config", "order")
    yield from launches(
        command,
        Place(
            path=file.path,
            line=line,
            language="compose",
            name=name,
            words=(name, service.get("container_name"), *_image(service)),
            replicas=replicas,
            rollout="" if replicas is None else "rolling" if order == "start-first" else "recreate",
        ),
    )
    for variable, value in _environment(service):
        if value.isdigit() and len(value) < 5:
            yield Setting(f"env.{variable}", value, file.path, service.line_of("environment"))


def _replicas(service: Node) -> int | None:
    for given in (service.get("deploy", "replicas"), service.get("scale")):
        if given:
            return number(given)[0]
    # One container as long as nobody scales it: not a promise.
    return None


def _image(service: Node) -> tuple[str, ...]:
    build = service.get("build") or service.get("build", "context")
    image = service.get("image").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return image, build, service.get("build", "dockerfile")


def _environment(service: Node) -> Iterator[tuple[str, str]]:
    node = service.at("environment")
    if node is None:
        return
    for item in node.items:
        name, _, value = item.text.partition("=")
        if _counts(name):
            yield name, value
    for name, child in node.entries.items():
        if _counts(name):
            yield name, child.text


def _counts(name: str) -> bool:
    return any(word in name for word in ("WORKERS", "CONCURRENCY", "PROCESSES", "INSTANCES"))
