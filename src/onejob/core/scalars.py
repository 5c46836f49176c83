"""The types of the standard library that JSON lacks, each as one text.

A table: a type, how it is written, how it is read. The texts are what other languages read as well
(ISO 8601, RFC 4648), and are exact.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

_DURATION: Final = re.compile(r"(-?)PT(\d{1,15})(?:\.(\d{6}))?S", re.ASCII)


class Unfit(ValueError):
    """A value, or a hint, that JSON cannot carry. ``path`` is filled on the way up."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[str] = []
        super().__init__(reason)


def kind(value: object) -> str:
    """Name a value's type for a message, never the value: it may be a secret."""
    name = type(value).__qualname__
    return name if value is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def _scalar(
    cls: type, write: Callable[[Any], str], read: Callable[[str], Any]
) -> tuple[Callable[[Any], str], Callable[[Any], Any]]:
    def decode(data: Any) -> Any:
        if not isinstance(data, str):
            raise Unfit(f"{kind(data)} given, {cls.__name__} wanted")
        try:
            return read(data)
        except (ValueError, InvalidOperation, OverflowError):
            raise Unfit(f"a text that is not {cls.__name__}") from None

    def encode(value: Any) -> str:
        # A datetime is a date to Python; it would come back without its time.
        if not isinstance(value, cls) or (cls is date and isinstance(value, datetime)):
            raise Unfit(f"{kind(value)} given, {cls.__name__} annotated")
        encoded = write(value)
        if type(value) is not cls and decode(encoded) != value:
            raise Unfit(f"{kind(value)} would not come back equal; send a plain {cls.__name__}")
        return encoded

    return encode, decode


def _write_datetime(value: datetime) -> str:
    if value.utcoffset() is None:
        raise Unfit(
            "a naive datetime names no time zone; make it aware: "
            "value.replace(tzinfo=timezone.utc), or datetime.now(timezone.utc)"
        )
    return value.isoformat()


def _read_datetime(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.utcoffset() is None:
        raise ValueError("naive")
    return value


def _write_time(value: time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise Unfit("a time in a zone has no offset without its date; send a datetime")
    return value.isoformat()


def _write_timedelta(value: timedelta) -> str:
    total = value // timedelta(microseconds=1)
    seconds, part = divmod(abs(total), 1_000_000)
    return f"{'-' if total < 0 else ''}PT{seconds}{f'.{part:06d}' if part else ''}S"


def _read_timedelta(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    span = timedelta(seconds=int(found[2]), microseconds=int(found[3] or 0))
    return -span if found[1] else span


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Unfit(f"Decimal {value} has no number to send; use None, or leave it out")
    return str(value)


def _read_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None


SCALARS: Final = {
    datetime: _scalar(datetime, _write_datetime, _read_datetime),
    date: _scalar(date, date.isoformat, date.fromisoformat),
    time: _scalar(time, _write_time, time.fromisoformat),
    timedelta: _scalar(timedelta, _write_timedelta, _read_timedelta),
    UUID: _scalar(UUID, str, UUID),
    Decimal: _scalar(Decimal, _write_decimal, Decimal),
    bytes: _scalar(bytes, lambda value: base64.b64encode(value).decode(), _read_base64),
}
