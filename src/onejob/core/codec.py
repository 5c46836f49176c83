"""JSON for a type hint, and back to an equal value.

The types come from the hints in the code, never from the stored text, so data can name nothing to
be built. A value that would not come back equal is refused when it is encoded, where the person
who can fix it is, with the path that leads to it.

Two promises shape the rest: an encoding of a hint never changes (runs outlive releases), and a
codec does not depend on which process built it, or in which order.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, Union, get_args, get_origin

from onejob.core.codec_classes import enumeration, named_tuple, record, typed_dict
from onejob.core.codec_containers import (
    endless_tuple,
    fixed_tuple,
    literal,
    mapping,
    optional,
    plain_mapping,
    sequence,
    union,
)
from onejob.core.codec_plain import BUILTINS, NOTHING, PLAIN, Codec
from onejob.core.scalars import SCALARS, Unfit

_LISTS: Final = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
    collections.abc.Iterable,
)
_DICTS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def codec(hint: object) -> Codec:
    """Return the codec of a resolved type hint; Unfit when there is none."""
    return _codec(hint)


@lru_cache(maxsize=4_096)
def _codec(hint: Any) -> Codec:
    if hint in (Any, object) or isinstance(hint, typing.TypeVar):
        return PLAIN
    if hint is None or hint is type(None):
        return NOTHING
    if isinstance(hint, typing.NewType):
        return _codec(hint.__supertype__)
    if not isinstance(hint, type) and hasattr(hint, "__value__"):  # a `type X = ...` alias
        return _codec(hint.__value__)
    origin, args = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _codec(args[0])
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        kinds: list[Any] = [type(arg) for arg in args]
        return literal([(a, _codec(cls).encode(a)) for a, cls in zip(args, kinds, strict=True)])
    return _of_class(origin or hint, args)


def _of_class(cls: Any, args: tuple[Any, ...]) -> Codec:
    if cls in BUILTINS:
        return BUILTINS[cls]
    if cls in SCALARS:
        write, read = SCALARS[cls]
        return Codec(write, read, textual=True)
    if cls in _LISTS:
        return sequence(list, _first(args))
    if cls in (set, frozenset):
        return sequence(cls, _first(args))
    if cls is tuple:
        return _tuple(args)
    if cls in _DICTS:
        return mapping(*map(_codec, args)) if args else plain_mapping()
    if isinstance(cls, type):
        if issubclass(cls, Enum):
            return enumeration(cls)
        if dataclasses.is_dataclass(cls):
            return record(cls, _codec)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return named_tuple(cls, _codec)
        if issubclass(cls, dict) and hasattr(cls, "__total__"):
            return typed_dict(cls, _codec)
    shown = getattr(cls, "__qualname__", repr(cls))
    raise Unfit(
        f"the hint {shown} has no JSON form; use a dataclass, or one of str int float bool list "
        "dict tuple set datetime date time timedelta UUID Decimal bytes Enum TypedDict NamedTuple"
    )


def _first(args: tuple[Any, ...]) -> Codec:
    return _codec(args[0]) if args else PLAIN


def _tuple(args: tuple[Any, ...]) -> Codec:
    if not args or (len(args) == 2 and args[1] is Ellipsis):
        return endless_tuple(_first(args))
    return fixed_tuple([_codec(arg) for arg in args if arg != ()])


def _union(args: tuple[Any, ...]) -> Codec:
    if type(None) in args and len(args) == 2:
        return optional(_codec(args[0] if args[1] is type(None) else args[1]))
    return union([(_codec(arg), repr(arg)) for arg in args])
