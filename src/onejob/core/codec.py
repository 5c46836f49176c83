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
import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from onejob.core.scalars import SCALARS, Unfit, kind

_INT_BITS_MAX: Final = 14_000
"""Python refuses to print, or to read, integers of more than 4,300 digits."""


class Codec(NamedTuple):
    """How one hint is written and read. Both functions raise Unfit."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    textual: bool = False
    """It always encodes to text, so it can be the key of a JSON object as it is."""
    rank: int = 5
    """The place in a union: the least general first, str last."""


def codec(hint: object) -> Codec:
    """Return the codec of a resolved type hint; Unfit when there is none."""
    return _codec(hint)


@lru_cache(maxsize=4_096)
def _codec(hint: Any) -> Codec:
    if hint in (Any, object) or isinstance(hint, typing.TypeVar):
        return PLAIN
    if hint is None or hint is type(None):
        return _NOTHING
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
        return _literal(args)
    return _of_class(origin or hint, args)


def _of_class(cls: Any, args: tuple[Any, ...]) -> Codec:
    if cls in _BUILTINS:
        return _BUILTINS[cls]
    if cls in SCALARS:
        write, read = SCALARS[cls]
        return Codec(write, read, textual=True)
    if cls in _LISTS:
        return _sequence(list, args)
    if cls in (set, frozenset):
        return _sequence(cls, args)
    if cls is tuple:
        return _tuple(args)
    if cls in _DICTS:
        return _mapping(args)
    if isinstance(cls, type):
        if issubclass(cls, Enum):
            return _enum(cls)
        if dataclasses.is_dataclass(cls):
            return _dataclass(cls)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return _named_tuple(cls)
        if issubclass(cls, dict) and hasattr(cls, "__total__"):
            return _typed_dict(cls)
    shown = getattr(cls, "__qualname__", repr(cls))
    raise Unfit(
        f"the hint {shown} has no JSON form; use a dataclass, or one of str int float bool list "
        "dict tuple set datetime date time timedelta UUID Decimal bytes Enum TypedDict NamedTuple"
    )


# Plain values ------------------------------------------------------------------------------------


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit(f"{kind(value)} given, str annotated")
    return value if type(value) is str else str.__str__(value)


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise Unfit(f"{kind(value)} given, int annotated")
    if value.bit_length() > _INT_BITS_MAX:
        raise Unfit("an int of more than 4,200 digits cannot be written; send it as bytes")
    return value if type(value) in (int, bool) else int(value)


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit(f"{kind(value)} given, bool annotated")
    return value


def _float(value: object) -> float:
    # An int is a float to type checkers. It stays an int, exact beyond 2^53.
    if isinstance(value, int):
        return _int(value)
    if not isinstance(value, float):
        raise Unfit(f"{kind(value)} given, float annotated")
    if not math.isfinite(value):
        raise Unfit(f"{value!r} has no JSON form; use None, or leave it out")
    return value if type(value) is float else float(value)


def _none(value: object) -> None:
    if value is not None:
        raise Unfit(f"{kind(value)} given, None annotated")


def _plain(value: object) -> object:
    """Without a hint only plain JSON comes back equal; a subclass would come back as its base."""
    given = type(value)
    if given is str or given is bool or value is None:
        return value
    if given is int:
        return _int(value)
    if given is float:
        return _float(value)
    if isinstance(value, list) and given is list:
        return _each(_plain, value)
    if isinstance(value, dict) and given is dict:
        for key in value:
            if type(key) is not str:
                raise Unfit(
                    f"the key {key!r} is {kind(key)}, and JSON keys are text; "
                    f"annotate it, as in dict[{type(key).__name__}, ...]"
                )
        return {key: _within(_step(key), _plain, item) for key, item in value.items()}
    raise Unfit(
        f"{kind(value)} cannot come back from plain JSON; annotate it as {given.__qualname__}, "
        "or send plain values"
    )


PLAIN: Final = Codec(_plain, lambda data: data, rank=8)
_NOTHING: Final = Codec(_none, _none, rank=0)
_BUILTINS: Final[dict[Any, Codec]] = {
    bool: Codec(_bool, _bool, rank=1),
    int: Codec(_int, _int, rank=2),
    float: Codec(_float, _float, rank=3),
    str: Codec(_str, _str, textual=True, rank=9),
}
_LISTS: Final = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
    collections.abc.Iterable,
)
_DICTS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def _step(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{key!r}]"


# Containers --------------------------------------------------------------------------------------


def _within(step: str, function: Callable[[Any], Any], value: object) -> Any:
    try:
        return function(value)
    except Unfit as unfit:
        unfit.path.append(step)
        raise


def _each(function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    return [_within(f"[{n}]", function, value) for n, value in enumerate(values)]


def _want(cls: type, value: Any) -> Any:
    if type(value) is not cls:
        raise Unfit(f"{kind(value)} given, {cls.__qualname__} annotated")
    return value


def _sequence(cls: Any, args: tuple[Any, ...]) -> Codec:
    item = _codec(args[0]) if args else PLAIN

    def encode(value: Any) -> list[Any]:
        items = _each(item.encode, _want(cls, value))
        # A set has no order of its own, and its text must not depend on the process.
        return items if cls is list else sorted(items, key=canonical_json)

    return Codec(encode, lambda data: cls(_each(item.decode, _want(list, data))))


def _tuple(args: tuple[Any, ...]) -> Codec:
    if not args or (len(args) == 2 and args[1] is Ellipsis):
        item = _codec(args[0]) if args else PLAIN
        return Codec(
            lambda value: _each(item.encode, _want(tuple, value)),
            lambda data: tuple(_each(item.decode, _want(list, data))),
        )
    items = [_codec(arg) for arg in args if arg != ()]

    def walk(value: Any, cls: type, function: Callable[[Codec], Callable[[Any], Any]]) -> list[Any]:
        if len(_want(cls, value)) != len(items):
            raise Unfit(f"{len(value)} items given, {len(items)} annotated")
        return [
            _within(f"[{n}]", function(item), each)
            for n, (item, each) in enumerate(zip(items, value, strict=True))
        ]

    return Codec(
        lambda value: walk(value, tuple, lambda c: c.encode),
        lambda data: tuple(walk(data, list, lambda c: c.decode)),
    )


def _mapping(args: tuple[Any, ...]) -> Codec:
    if not args:
        return Codec(lambda value: _plain(_want(dict, value)), lambda data: _want(dict, data))
    key, item = _codec(args[0]), _codec(args[1])
    if key is PLAIN:
        key = _BUILTINS[str]

    def encode(value: Any) -> dict[str, Any]:
        encoded: dict[str, Any] = {}
        for k, v in _want(dict, value).items():
            name = _within(f"[{k!r}]", key.encode, k)
            # JSON keys are text: another key is written as JSON inside it, so 1 becomes "1".
            encoded[name if key.textual else canonical_json(name)] = _within(
                f"[{k!r}]", item.encode, v
            )
        return encoded

    def decode(data: Any) -> dict[Any, Any]:
        return {
            key.decode(k if key.textual else json.loads(k)): _within(f"[{k!r}]", item.decode, v)
            for k, v in _want(dict, data).items()
        }

    return Codec(encode, decode)


def _union(args: tuple[Any, ...]) -> Codec:
    if type(None) in args and len(args) == 2:
        (inner,) = (_codec(arg) for arg in args if arg is not type(None))
        return Codec(
            lambda value: None if value is None else inner.encode(value),
            lambda data: None if data is None else inner.decode(data),
            rank=inner.rank,
        )
    # One order, whatever order the hint was written in: equal unions share one cached codec.
    members = sorted(((_codec(a), repr(a)) for a in args), key=lambda m: (m[0].rank, m[1]))
    codecs = [member for member, _ in members]

    def decode(data: Any) -> Any:
        for member in codecs:
            try:
                return member.decode(data)
            except Unfit:
                continue
        raise Unfit(f"{kind(data)} fits none of {', '.join(name for _, name in members)}")

    def encode(value: Any) -> Any:
        deepest: Unfit | None = None
        for member in codecs:
            try:
                encoded = member.encode(value)
            except Unfit as unfit:
                if unfit.path and (deepest is None or len(unfit.path) > len(deepest.path)):
                    deepest = unfit
                continue
            back = decode(encoded)
            if type(back) is type(value) and back == value:
                return encoded
            raise Unfit(
                f"{kind(value)} would come back as {kind(back)}: its JSON fits both; "
                "annotate one type, or use dataclasses of different fields"
            )
        if deepest is not None:
            raise deepest
        raise Unfit(f"{kind(value)} fits none of {', '.join(name for _, name in members)}")

    return Codec(encode, decode, all(c.textual for c in codecs), max(c.rank for c in codecs))


def _literal(args: tuple[Any, ...]) -> Codec:
    kinds: list[Any] = [type(arg) for arg in args]
    table = [(a, _codec(cls).encode(a)) for a, cls in zip(args, kinds, strict=True)]

    def pick(value: Any, given: int, wanted: int) -> Any:
        for row in table:
            if type(row[given]) is type(value) and row[given] == value:
                return row[wanted]
        raise Unfit(f"{value!r} is none of {', '.join(repr(arg) for arg in args)}")

    textual = all(isinstance(encoded, str) for _, encoded in table)
    return Codec(lambda v: pick(v, 0, 1), lambda data: pick(data, 1, 0), textual, rank=4)


# Classes -----------------------------------------------------------------------------------------


def _enum(cls: type[Enum]) -> Codec:
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


def _dataclass(cls: Any) -> Codec:
    fields = dataclasses.fields(cls)
    taken = [field.name for field in fields if field.init]
    derived = len(taken) != len(fields)
    for name, parameter in inspect.signature(cls).parameters.items():
        if name not in taken and parameter.default is parameter.empty:
            raise Unfit(f"{cls.__qualname__} needs {name!r}, which it does not keep as a field")

    def encode(value: Any) -> dict[str, Any]:
        _want(cls, value)
        encoded = _encode_fields(cls, {name: getattr(value, name) for name in taken})
        # Fields outside __init__ are computed again; what was changed by hand would be lost.
        if derived and decode(encoded) != value:
            raise Unfit(f"{kind(value)} has fields that __init__ does not take and would lose them")
        return encoded

    def decode(data: Any) -> Any:
        return _build(cls, lambda: cls(**_decode_fields(cls, data)))

    return Codec(encode, decode, rank=6)


def _named_tuple(cls: Any) -> Codec:
    return Codec(
        lambda value: _encode_fields(cls, _want(cls, value)._asdict()),
        lambda data: _build(cls, lambda: cls(**_decode_fields(cls, data))),
        rank=6,
    )


def _typed_dict(cls: Any) -> Codec:
    return Codec(
        lambda value: _encode_fields(cls, _want(dict, value)),
        lambda data: _decode_fields(cls, data),
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


def _encode_fields(cls: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {n: _within(f".{n}", _field(cls, n).encode, v) for n, v in values.items()}


def _decode_fields(cls: Any, data: Any) -> dict[str, Any]:
    return {n: _within(f".{n}", _field(cls, n).decode, v) for n, v in _want(dict, data).items()}


def _field(cls: Any, name: str) -> Codec:
    # Looked up when it is met, not when the class is: a class may hold itself.
    hints = _hints_of(cls)
    if name in hints:
        return _codec(hints[name])
    if name in getattr(cls, "_fields", ()):
        return PLAIN  # collections.namedtuple has no hints
    raise Unfit(f"{cls.__qualname__} has no field {name!r}")


# Made once: json.dumps with options makes an encoder for each call.
canonical_json: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
"""Write JSON in the one form that it has here: sorted keys, no spaces, text as it is."""
