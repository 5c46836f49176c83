"""Codecs of classes: enums, dataclasses, named tuples, typed dicts.

A class is written as the JSON object of its fields, and its fields' codecs are looked up when a
value is met, not when the class is: a class may hold itself.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias, get_type_hints

from onejob.core.codec_plain import PLAIN, Codec, want, within
from onejob.core.scalars import Unfit, kind

CodecOf: TypeAlias = Callable[[Any], Codec]
"""Gives the codec of a hint."""


def enumeration(cls: type[Enum]) -> Codec:
    # By value, which is what people store; by name where a value is not plain.
    by_value = all(type(member.value) in (str, int) for member in cls)

    def encode(value: Any) -> Any:
        return _want_member(cls, value).value if by_value else _want_member(cls, value).name

    def decode(data: Any) -> Any:
        try:
            found = cls(data) if by_value else cls[data]
        except (KeyError, ValueError, TypeError):
            raise Unfit(f"{data!r} is not of {cls.__qualname__}") from None
        if by_value and type(found.value) is not type(data):
            raise Unfit(f"{data!r} is not of {cls.__qualname__}")
        return found

    textual = not by_value or all(type(m.value) is str for m in cls)
    return Codec(encode, decode, textual, rank=4)


def _want_member(cls: type[Enum], value: Any) -> Enum:
    if not isinstance(value, cls):
        raise Unfit(f"{kind(value)} given, {cls.__qualname__} annotated")
    return value


def record(cls: Any, of: CodecOf) -> Codec:
    """A dataclass."""
    fields = dataclasses.fields(cls)
    taken = [field.name for field in fields if field.init]
    derived = len(taken) != len(fields)
    for name, parameter in inspect.signature(cls).parameters.items():
        if name not in taken and parameter.default is parameter.empty:
            raise Unfit(f"{cls.__qualname__} needs {name!r}, which it does not keep as a field")

    def encode(value: Any) -> dict[str, Any]:
        want(cls, value)
        encoded = _encode_fields(cls, of, {name: getattr(value, name) for name in taken})
        # Fields outside __init__ are computed again; what was changed by hand would be lost.
        if derived and decode(encoded) != value:
            raise Unfit(f"{kind(value)} has fields that __init__ does not take and would lose them")
        return encoded

    def decode(data: Any) -> Any:
        return _build(cls, lambda: cls(**_decode_fields(cls, of, data)))

    return Codec(encode, decode, rank=6)


def named_tuple(cls: Any, of: CodecOf) -> Codec:
    """A NamedTuple, by the names of its fields, so that it can grow."""
    return Codec(
        lambda value: _encode_fields(cls, of, want(cls, value)._asdict()),
        lambda data: _build(cls, lambda: cls(**_decode_fields(cls, of, data))),
        rank=6,
    )


def typed_dict(cls: Any, of: CodecOf) -> Codec:
    """A TypedDict."""
    return Codec(
        lambda value: _encode_fields(cls, of, want(dict, value)),
        lambda data: _decode_fields(cls, of, data),
        rank=7,
    )


def _build(cls: Any, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (TypeError, ValueError) as error:
        if isinstance(error, Unfit):
            raise
        raise Unfit(f"{cls.__qualname__} refused its fields: {error}") from error


@lru_cache(maxsize=4_096)
def _hints_of(cls: Any) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except NameError as error:
        raise Unfit(f"a hint of {cls.__qualname__} cannot be resolved: {error}") from error


def _encode_fields(cls: Any, of: CodecOf, values: dict[str, Any]) -> dict[str, Any]:
    return {n: within(f".{n}", _field(cls, n, of).encode, v) for n, v in values.items()}


def _decode_fields(cls: Any, of: CodecOf, data: Any) -> dict[str, Any]:
    return {n: within(f".{n}", _field(cls, n, of).decode, v) for n, v in want(dict, data).items()}


def _field(cls: Any, name: str, of: CodecOf) -> Codec:
    # Looked up when it is met, not when the class is: a class may hold itself.
    hints = _hints_of(cls)
    if name in hints:
        return of(hints[name])
    if name in getattr(cls, "_fields", ()):
        return PLAIN  # collections.namedtuple has no hints
    raise Unfit(f"{cls.__qualname__} has no field {name!r}")
