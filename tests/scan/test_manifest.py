"""Manifests: YAML is parsed, templates are read by line, and both say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from onejob.scan.manifest import Node, documents

FIXTURES = Path(__file__).parent / "fixtures" / "infrastructure"
PLAIN = sorted(
    path
    for path in FIXTURES.rglob("*.y*ml")
    if not any(mark in path.read_text() for mark in ("{{", "${{", "<%"))
)


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_reading_by_line_finds_what_parsing_finds(path: Path) -> None:
    text = path.read_text()
    parsed = documents(text)
    by_line = documents(text + "\n# {{ a template's mark }}\n")

    assert [plain(node) for node in by_line] == [plain(node) for node in parsed]


KEYS = ("kind", "schedule", "cron", "concurrencyPolicy", "replicas", "command", "name")


def plain(node: Node) -> list[tuple[str, str, int]]:
    """Return the texts of some keys, with their lines."""
    return [
        (key, child.text, child.line)
        for key, child, _ in node.walk()
        if child.text and key in KEYS and "\n" not in child.text
    ]


def test_keys_under_a_template_s_condition_keep_their_place() -> None:
    (document,) = documents(
        "kind: Deployment\n"
        "spec:\n"
        "  {{- if not .Values.autoscaling.enabled }}\n"
        "  replicas: 1\n"
        "  {{- else }}\n"
        "  replicas: 7\n"
        "  {{- end }}\n"
        "  template:\n"
        '    name: "{{ .Values.name }}"\n'
    )

    assert document.get("spec", "replicas") == "1"
    assert document.at("spec", "replicas") == Node(4, "1")
    assert document.get("spec", "template", "name") == "{{ .Values.name }}"


def test_merged_keys_are_there_and_the_own_ones_win() -> None:
    (document,) = documents(
        "x: &base {image: shop, command: web}\n"
        "services:\n"
        "  beat:\n"
        "    <<: *base\n"
        "    command: beat\n"
    )

    assert document.get("services", "beat", "image") == "shop"
    assert document.get("services", "beat", "command") == "beat"
