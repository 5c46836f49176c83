"""What every codec is made of: the plain JSON values, and the walk that keeps the path."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from onejob.core.scalars import Unfit, kind

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
        return each(_plain, value)
    if isinstance(value, dict) and given is dict:
        for key in value:
            if type(key) is not str:
                raise Unfit(
                    f"the key {key!r} is {kind(key)}, and JSON keys are text; "
                    f"annotate it, as in dict[{type(key).__name__}, ...]"
                )
        return {key: within(step(key), _plain, item) for key, item in value.items()}
    raise Unfit(
        f"{kind(value)} cannot come back from plain JSON; annotate it as {given.__qualname__}, "
        "or send plain values"
    )


PLAIN: Final = Codec(_plain, lambda data: data, rank=8)
NOTHING: Final = Codec(_none, _none, rank=0)
BUILTINS: Final[dict[Any, Codec]] = {
    bool: Codec(_bool, _bool, rank=1),
    int: Codec(_int, _int, rank=2),
    float: Codec(_float, _float, rank=3),
    str: Codec(_str, _str, textual=True, rank=9),
}


def within(step: str, function: Callable[[Any], Any], value: object) -> Any:
    """Call it; if it refuses, note the step that led here. Costs nothing while all is well."""
    try:
        return function(value)
    except Unfit as unfit:
        unfit.path.append(step)
        raise


def each(function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """Call it for each item, with the item's place as the step."""
    return [within(f"[{n}]", function, value) for n, value in enumerate(values)]


def want(cls: type, value: Any) -> Any:
    """Return the value if it is exactly of that class: a subclass would come back as its base."""
    if type(value) is not cls:
        raise Unfit(f"{kind(value)} given, {cls.__qualname__} annotated")
    return value


def step(key: str) -> str:
    """Show a key as a step of a path."""
    return f".{key}" if key.isidentifier() else f"[{key!r}]"


# Made once: json.dumps with options makes an encoder for each call.
canonical_json: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
"""Write JSON in the one form that it has here: sorted keys, no spaces, text as it is."""
