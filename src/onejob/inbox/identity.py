"""A message's id: the caller's, or made from the message's content where envelope ids change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, TypeAlias
from urllib.parse import quote

from onejob.core.names import check_name
from onejob.errors import UsageError

KeyOfMessage: TypeAlias = Callable[[Any], str] | str
"""A function of the message, or a template of its fields: ``"{shop}/{order}"``."""


def check_inbox_name(name: object) -> str:
    """Return the name, or raise UsageError: a name (see ``check_name``) without ``/``."""
    name = check_name(name, what="inbox name")
    if "/" in name:
        raise UsageError(
            f"inbox name {name!r} has a '/' in it. An inbox's name and the message's id name a run "
            "together, and it must be clear where the name ends. "
            f"Use another sign: {name.replace('/', '.')!r}."
        )
    return name


def identify(key: KeyOfMessage | None) -> Callable[[Any], str]:
    """Return what tells a message's id; UsageError for a template that names no field."""
    if key is None:
        return _given
    if callable(key):
        return lambda message: check_name(key(message), what="message id")
    return _Template(key)


def _given(message: object) -> str:
    return check_name(message, what="message id")


class _Template:
    """Fields of a message in a text of the caller's.

    Values are quoted as in a URL, so that no value can look like the signs between two fields:
    ``{a}/{b}`` tells ("x/y", "z") from ("x", "y/z").
    """

    def __init__(self, template: str) -> None:
        try:
            parts = list(Formatter().parse(template))
        except ValueError as error:
            raise UsageError(f"key={template!r} is no template: {error}.") from None
        self._parts = [(text, name) for text, name, _, _ in parts]
        names = [name for _, name in self._parts if name is not None]
        wrong = any(spec or conversion for _, _, spec, conversion in parts)
        if not names or wrong or not all(name.isidentifier() for name in names):
            raise UsageError(
                f"key={template!r} must name fields of the message, such as '{{shop}}/{{order}}', "
                "without formats; for anything else give a function of the message."
            )

    def __call__(self, message: Any) -> str:
        if not isinstance(message, Mapping):
            raise UsageError(
                f"a key template reads a message's fields, and this one is a "
                f"{type(message).__name__}. Give a dict, or a function as key=."
            )
        told = []
        for text, name in self._parts:
            told.append(text)
            if name is not None:
                told.append(quote(_field(message, name), safe=""))
        return check_name("".join(told), what="message id")


def _field(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    if value is None or value == "" or not isinstance(value, str | int):
        raise UsageError(
            f"this message has no text or whole number as {name!r}, which its id is made of: all "
            "messages without one would count as the same."
        )
    return str(value)
