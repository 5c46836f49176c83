"""Codecs of containers and unions, from the codecs of what they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from onejob.core.codec_plain import (
    BUILTINS,
    PLAIN,
    Codec,
    canonical_json,
    each,
    want,
    within,
)
from onejob.core.scalars import Unfit, kind


def sequence(cls: Any, item: Codec) -> Codec:
    """A list, or a set written as one."""

    def encode(value: Any) -> list[Any]:
        items = each(item.encode, want(cls, value))
        # A set has no order of its own, and its text must not depend on the process.
        return items if cls is list else sorted(items, key=canonical_json)

    return Codec(encode, lambda data: cls(each(item.decode, want(list, data))))


def endless_tuple(item: Codec) -> Codec:
    """``tuple[X, ...]``."""
    return Codec(
        lambda value: each(item.encode, want(tuple, value)),
        lambda data: tuple(each(item.decode, want(list, data))),
    )


def fixed_tuple(items: list[Codec]) -> Codec:
    """``tuple[X, Y]``."""

    def walk(value: Any, cls: type, function: Callable[[Codec], Callable[[Any], Any]]) -> list[Any]:
        if len(want(cls, value)) != len(items):
            raise Unfit(f"{len(value)} items given, {len(items)} annotated")
        return [
            within(f"[{n}]", function(item), member)
            for n, (item, member) in enumerate(zip(items, value, strict=True))
        ]

    return Codec(
        lambda value: walk(value, tuple, lambda c: c.encode),
        lambda data: tuple(walk(data, list, lambda c: c.decode)),
    )


def plain_mapping() -> Codec:
    """A dict without hints: plain JSON, so text keys."""
    return Codec(lambda value: PLAIN.encode(want(dict, value)), lambda data: want(dict, data))


def mapping(key: Codec, item: Codec) -> Codec:
    """``dict[K, V]``, an object in JSON whatever K is."""
    if key is PLAIN:
        key = BUILTINS[str]

    def encode(value: Any) -> dict[str, Any]:
        encoded: dict[str, Any] = {}
        for k, v in want(dict, value).items():
            name = within(f"[{k!r}]", key.encode, k)
            # JSON keys are text: another key is written as JSON inside it, so 1 becomes "1".
            encoded[name if key.textual else canonical_json(name)] = within(
                f"[{k!r}]", item.encode, v
            )
        return encoded

    def decode(data: Any) -> dict[Any, Any]:
        return {
            key.decode(k if key.textual else json.loads(k)): within(f"[{k!r}]", item.decode, v)
            for k, v in want(dict, data).items()
        }

    return Codec(encode, decode)


def optional(inner: Codec) -> Codec:
    """``X | None``."""
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda data: None if data is None else inner.decode(data),
        rank=inner.rank,
    )


def union(named: list[tuple[Codec, str]]) -> Codec:
    """``X | Y``: the first that fits, if it is also the one that would be read back."""
    # One order, whatever order the hint was written in: equal unions share one cached codec.
    members = sorted(named, key=lambda member: (member[0].rank, member[1]))
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


def literal(table: list[tuple[Any, Any]]) -> Codec:
    """``Literal[...]``: rows of a value and its JSON."""

    def pick(value: Any, given: int, wanted: int) -> Any:
        for row in table:
            if type(row[given]) is type(value) and row[given] == value:
                return row[wanted]
        raise Unfit(f"{value!r} is none of {', '.join(repr(value) for value, _ in table)}")

    textual = all(isinstance(encoded, str) for _, encoded in table)
    return Codec(lambda v: pick(v, 0, 1), lambda data: pick(data, 1, 0), textual, rank=4)
