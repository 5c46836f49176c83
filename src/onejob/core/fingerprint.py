"""One hash for one content, however it was put together.

Objects are compared by content and not by order: ``{"a": 1, "b": 2}`` equals ``{"b": 2, "a": 1}``,
and a list equals the tuple of the same items. Types are kept apart: ``1``, ``1.0``, ``"1"``,
``True`` and ``Decimal(1)`` all differ, since guessing that two of them mean the same could hide
that other content was sent. Decimals of one value are equal (10.50 and 10.5), and so are two
datetimes of one instant.
"""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from typing import Any
from uuid import UUID

from onejob.core.scalars import kind
from onejob.errors import UsageError


def fingerprint(value: object) -> str:
    """Return the SHA-256, in hex, of a value's canonical form.

    Takes JSON values, and Decimal, datetime, date, time, timedelta, UUID, bytes, Enum, sets and
    dataclasses. Raises UsageError for NaN, a naive datetime, and anything else.
    """
    try:
        return sha256(_canonical(value).encode()).hexdigest()
    except (RecursionError, UnicodeEncodeError) as error:
        raise UsageError(
            f"{kind(value)} has no fingerprint: {type(error).__name__}. "
            "Give plain data: text without lone surrogates, nothing that contains itself."
        ) from None


def _canonical(value: Any) -> str:
    """JSON where JSON has a form; else ``type(text)``, which no JSON can collide with."""
    if isinstance(value, Enum):
        return _canonical(value.value)
    if value is None or isinstance(value, bool | str | int):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and math.isfinite(value):
        return repr(float(value))
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_canonical, value))}]"
    if isinstance(value, dict):
        items = sorted((_canonical(key), _canonical(item)) for key, item in value.items())
        return "{" + ",".join(f"{key}:{item}" for key, item in items) + "}"
    if isinstance(value, set | frozenset):
        return f"set({','.join(sorted(map(_canonical, value)))})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _canonical({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    return _tagged(value)


def _tagged(value: Any) -> str:
    if isinstance(value, Decimal) and value.is_finite():
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits)))
        assert isinstance(exponent, int)
        while number and number % 10 == 0:
            number, exponent = number // 10, exponent + 1
        return f"decimal({'-' if sign and number else ''}{number}e{exponent if number else 0})"
    if isinstance(value, datetime):
        if value.utcoffset() is not None:
            return f"datetime({value.astimezone(UTC).isoformat()})"
    elif isinstance(value, date | time):
        return f"{type(value).__name__}({value.isoformat()})"
    elif isinstance(value, timedelta):
        return f"timedelta({value // timedelta(microseconds=1)})"
    elif isinstance(value, UUID):
        return f"uuid({value})"
    elif isinstance(value, bytes | bytearray | memoryview):
        return f"bytes({bytes(value).hex()})"
    naive = isinstance(value, datetime)
    raise UsageError(
        f"{'a naive datetime' if naive else kind(value)} has no fingerprint. "
        f"{'Make it aware.' if naive else 'Give JSON values, Decimal, datetime, UUID or bytes.'}"
    )
