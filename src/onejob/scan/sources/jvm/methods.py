"""Java and Kotlin files as methods with annotations, bodies and calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from onejob.scan.bodies import without_comments
from onejob.scan.reading import SourceFile
from onejob.scan.syntax import children, enclosing, line, literal, nodes, parse

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_CLASSES = (
    "class_declaration",
    "object_declaration",
    "interface_declaration",
    "record_declaration",
)
_METHODS = {"java": "method_declaration", "kotlin": "function_declaration"}
_CALLS = {"java": "method_invocation", "kotlin": "call_expression"}
_MARKS = {"java": ("annotation", "marker_annotation"), "kotlin": ("annotation",)}


@dataclass(frozen=True, slots=True)
class Annotation:
    """``@Name(key = value)``; the one argument without a key has the key ``value``."""

    name: str
    arguments: dict[str, str]
    line: int


@dataclass(frozen=True, slots=True)
class Method:
    """One method or function."""

    name: str
    owner: str
    """The name of its class; "" for a function of the file."""
    line: int
    annotations: tuple[Annotation, ...]
    body: str
    parameters: str
    node: SgNode

    @property
    def qualified(self) -> str:
        """Return ``Class.method``."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def marks(self) -> tuple[str, ...]:
        """Return the names of its annotations."""
        return tuple(annotation.name for annotation in self.annotations)


@dataclass(frozen=True, slots=True)
class Call:
    """One call: ``receiver.name(arguments)``."""

    name: str
    receiver: str
    arguments: tuple[str, ...]
    line: int
    node: SgNode


class Unit:
    """One parsed file."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.language = "kotlin" if file.path.lower().endswith((".kt", ".kts")) else "java"
        self.root = parse(file.text, self.language)

    @cached_property
    def methods(self) -> list[Method]:
        """Return every method, in order."""
        return [self.method(node) for node in nodes(self.root, _METHODS[self.language])]

    def method(self, node: SgNode) -> Method:
        """Return one method's parts."""
        parts = children(node)
        name = next(
            (p.text() for p in parts if p.kind() in ("identifier", "simple_identifier")), ""
        )
        body = next((p for p in parts if p.kind() in ("block", "function_body")), None)
        parameters = next(
            (p for p in parts if p.kind() in ("formal_parameters", "function_value_parameters")),
            None,
        )
        return Method(
            name=name,
            owner=self.owner(node),
            line=line(node),
            annotations=tuple(self.annotations(node)),
            body=without_comments(body.text()) if body is not None else "",
            parameters=parameters.text() if parameters is not None else "",
            node=node,
        )

    def owner(self, node: SgNode) -> str:
        """Return the name of the class around a node."""
        found = enclosing(node, *_CLASSES)
        for part in children(found):
            if part.kind() in ("identifier", "type_identifier", "simple_identifier"):
                return part.text()
        return ""

    def method_of(self, node: SgNode) -> Method | None:
        """Return the method that a node stands in."""
        found = enclosing(node, _METHODS[self.language])
        return self.method(found) if found is not None else None

    def annotations(self, node: SgNode) -> Iterator[Annotation]:
        """Return the annotations on a declaration, those inside ``@Schedules({...})`` too."""
        for modifiers in children(node, "modifiers"):
            for each in nodes(modifiers, *_MARKS[self.language]):
                yield _annotation(each)

    def calls(self) -> Iterator[Call]:
        """Return every call, in order."""
        for node in nodes(self.root, _CALLS[self.language]):
            yield self._call(node)

    def _call(self, node: SgNode) -> Call:
        if self.language == "java":
            name, receiver = node.field("name"), node.field("object")
            arguments = tuple(each.text() for each in children(node.field("arguments")))
            return Call(
                name.text() if name else "",
                receiver.text() if receiver else "",
                arguments,
                line(name) if name else line(node),
                node,
            )
        callee = children(node)[0] if children(node) else node
        receiver_text, _, name_text = callee.text().rpartition(".")
        found = []
        for suffix in children(node, "call_suffix"):
            for values in children(suffix, "value_arguments"):
                found += [each.text() for each in children(values, "value_argument")]
            found += [each.text() for each in children(suffix, "annotated_lambda")]
        ends = callee.range().end.line + 1
        return Call(name_text.strip("?!"), receiver_text, tuple(found), ends, node)

    def constant(self, name: str) -> str:
        """Return the text that a constant of this file has; "" for anything else."""
        last = re.escape(name.rpartition(".")[2])
        match = re.search(
            rf"\b{last}\b(?:\s*:\s*String)?\s*=\s*(\"(?:\\.|[^\"\\\n])*\")", self.file.text
        )
        return literal(match[1]) if match and last else ""

    def number(self, text: str) -> float | None:
        """Return a number that is written, in arithmetic or as a constant of this file."""
        plain = re.sub(r"(?<=\d)_(?=\d)|(?<=\d)[lL]\b", "", text.strip())
        if re.fullmatch(r"[\d\s*().]{1,60}", plain) and re.search(r"\d", plain):
            product = 1.0
            for factor in re.findall(r"\d+(?:\.\d+)?", plain):
                product *= float(factor)
            return product
        if re.fullmatch(r"[\w.]{1,80}", plain):
            last = re.escape(plain.rpartition(".")[2])
            match = re.search(
                rf"\b{last}\b(?:\s*:\s*\w+)?\s*=\s*([\d_\s*()lL.]+)\s*(?:;|$)", self.file.text, re.M
            )
            return self.number(match[1]) if match else None
        return None


def _annotation(node: SgNode) -> Annotation:
    text = node.text()
    name = re.match(r"@(?:\w+:)?\s*([\w.]+)", text)
    arguments: dict[str, str] = {}
    if node.kind() == "annotation":
        inner = children(node, "annotation_argument_list", "value_arguments")
        for made in children(node, "constructor_invocation"):
            inner += children(made, "value_arguments")
        for each in children(inner[0]) if inner else ():
            if each.kind() in ("annotation", "marker_annotation"):
                continue
            key, equals, value = each.text().partition("=")
            if equals and re.fullmatch(r"\s*\w+\s*", key):
                arguments[key.strip()] = value.strip()
            else:
                arguments.setdefault("value", each.text())
    return Annotation(name[1].rpartition(".")[2] if name else "", arguments, line(node))
