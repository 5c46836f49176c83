"""Instants and spans as integers, and the texts people write them in.

An instant is microseconds since the epoch in UTC, a span is microseconds. Integers compare exactly
in every store and language; a ``datetime`` only appears where a person reads or writes one. Both
fit in 64 bits for every value accepted here.
"""

from __future__ import annotations

import difflib
import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, NewType, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from onejob.errors import UsageError

Instant = NewType("Instant", int)
Span = NewType("Span", int)

Duration: TypeAlias = timedelta | float | int | str

SECOND: Final = Span(1_000_000)
MINUTE: Final = Span(60 * SECOND)
HOUR: Final = Span(60 * MINUTE)
DAY: Final = Span(24 * HOUR)
LONGEST: Final = Span(365_250 * DAY)
"""A thousand years: the longest span accepted, so that adding one never leaves 64 bits."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
LATEST: Final = Instant((datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // _MICROSECOND)
"""The last instant that work may be due: a datetime can hold it in every time zone."""
_LAST_MOMENT: Final = Instant((datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND)
_UNITS: Final = {
    "us": 1,
    "ms": 1_000,
    "s": int(SECOND),
    "m": int(MINUTE),
    "h": int(HOUR),
    "d": int(DAY),
    "w": int(7 * DAY),
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h|d|w)", re.ASCII)
_OF_A_MACHINE: Final = frozenset({"localtime", "posixrules"})
"""Files beside the zones that say what this machine was set to."""
_DURATION_LENGTH_MAX: Final = 100
_RFC_3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)


def duration(value: Duration, *, what: str, least: Span = Span(0)) -> Span:
    """Read a duration that a person wrote: a timedelta, a number of seconds, or text with units.

    Text is one or more of ``w d h m s ms us``, each at most once: ``"30s"``, ``"1h30m"``,
    ``"1.5h"``. Parts of a microsecond are rounded. ``what`` names the argument in the message.
    Raises UsageError for anything else, for what is shorter than ``least`` and for more than a
    thousand years.
    """
    span = _microseconds(value, what)
    if span < 0:
        raise UsageError(f"{what}={value!r} is negative. Give a duration such as '30s' or '1h30m'.")
    if span > LONGEST:
        raise UsageError(f"{what}={_short(value)} is over 1000 years. Give a shorter one: '7d'.")
    if span == 0 and value not in (0, timedelta(0)) and _says_more_than_nothing(value):
        raise UsageError(f"{what}={value!r} is less than a microsecond. Give one such as '500ms'.")
    if span < least:
        raise UsageError(
            f"{what}={value!r} is shorter than {show_span(least)}. "
            f"Give at least that: {what}={show_span(least)!r}."
        )
    return Span(span)


def _microseconds(value: object, what: str) -> int:
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, int) and not isinstance(value, bool):
        return value * SECOND
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"{what}={value!r} is not a duration. Give one such as '30s'.")
        # Compared before it is multiplied: the product of a huge float would be infinite.
        return round(value * SECOND) if abs(value) < LONGEST else int(value)
    if isinstance(value, str):
        return _read_units(value, what)
    raise UsageError(
        f"{what}={_short(value)} is not a duration: {type(value).__name__} given. "
        "Give a timedelta, a number of seconds, or text with a unit such as '30s' or '1h30m'."
    )


def _read_units(text: str, what: str) -> int:
    compact = text.replace(" ", "")
    if len(compact) > _DURATION_LENGTH_MAX:
        raise UsageError(f"{what}={_short(text)} is too long for a duration. Give one like '30s'.")
    parts = _PART.findall(compact)
    units = [unit for _, unit in parts]
    if not parts or "".join(n + unit for n, unit in parts) != compact:
        hint = f"{compact}s" if compact.replace(".", "", 1).isdecimal() else "1h30m"
        raise UsageError(
            f"{what}={text!r} is not a duration. Write a number with its unit "
            f"(w d h m s ms us), such as '{hint}', or give a number of seconds."
        )
    if len(set(units)) != len(units):
        raise UsageError(f"{what}={text!r} names a unit twice. Write it once, as in '1h30m'.")
    return round(sum((Decimal(n) * _UNITS[unit] for n, unit in parts), Decimal(0)))


def _says_more_than_nothing(value: Duration) -> bool:
    return not isinstance(value, str) or any(c in "123456789" for c in value)


def _short(value: object) -> str:
    try:
        shown = repr(value)
    except ValueError:  # an int of more digits than Python is willing to print
        return f"<{type(value).__name__}>"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def show_span(span: Span) -> str:
    """Show a span as people write it: ``1h30m``, ``250ms``, ``1m0.5s``.

    ``duration`` reads it back to the same span (a negative one is shown with a minus).
    """
    if span < 0:
        return "-" + show_span(Span(-span))
    if span < 1_000:
        return f"{span}us" if span else "0s"
    if span < SECOND:
        return f"{_decimal(span, 1_000)}ms"
    shown = ""
    for unit, size in (("d", DAY), ("h", HOUR), ("m", MINUTE)):
        count, span = divmod(span, size)[0], Span(span % size)
        shown += f"{count}{unit}" if count else ""
    return shown + (f"{_decimal(span, SECOND)}s" if span or not shown else "")


def _decimal(value: int, scale: int) -> str:
    whole, part = divmod(value, scale)
    if not part:
        return str(whole)
    return f"{whole}.{part:0{len(str(scale)) - 1}d}".rstrip("0")


def instant(value: datetime, *, what: str) -> Instant:
    """Turn an aware datetime into an instant; UsageError for a naive one.

    A naive datetime has no meaning of its own: read in the server's zone it may be hours off.
    """
    if not isinstance(value, datetime):
        raise UsageError(
            f"{what}={_short(value)} is not a datetime. "
            "Give an aware one: datetime(2026, 3, 29, 2, 0, tzinfo=timezone.utc)."
        )
    if value.utcoffset() is None:
        raise UsageError(
            f"{what}={value!r} is naive: it names no time zone. Say which one: "
            f"{what}=value.replace(tzinfo=ZoneInfo('Europe/Berlin')), "
            "or start from datetime.now(timezone.utc)."
        )
    try:
        return Instant((value.astimezone(UTC) - EPOCH) // _MICROSECOND)
    except OverflowError:
        raise UsageError(
            f"{what}={value!r} is before year 1 or after year 9999 in UTC. Give one in between."
        ) from None


def moment(at: Instant) -> datetime:
    """Turn an instant into an aware datetime in UTC.

    One after year 9999, which no datetime can hold, becomes the latest: looking never fails.
    """
    return EPOCH + timedelta(microseconds=at if at <= _LAST_MOMENT else LATEST)


def in_zone(at: Instant, tz: ZoneInfo) -> datetime:
    """Turn an instant into an aware datetime in a zone."""
    return moment(at).astimezone(tz)


def text(at: Instant) -> str:
    """Write an instant as RFC 3339 in UTC, with a fraction only where there is one.

    The one text of an instant: keys are made of it, so it never changes.
    """
    when = moment(at)
    whole = f"{when:%H:%M:%S}"
    fraction = f".{when.microsecond:06d}".rstrip("0") if when.microsecond else ""
    # strftime does not pad years before 1000 on every platform.
    return f"{when.year:04d}-{when.month:02d}-{when.day:02d}T{whole}{fraction}Z"


def read_instant(text: str, what: str) -> Instant:
    """Read an RFC 3339 text; seconds may be left out, the offset may not.

    Raises UsageError for anything else, and for a text without ``Z`` or an offset.
    """
    found = _RFC_3339.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(
            f"{what}={_short(text)} is not an instant. Write it as '2026-03-29T01:00:00Z'."
        )
    if found[3] is None:
        raise UsageError(
            f"{what}={text!r} names no time zone. End it with Z or an offset: "
            f"'{text}Z' or '{text}+02:00'."
        )
    try:
        return instant(datetime.fromisoformat(text.upper()), what=what)
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"{what}={text!r} is not an instant: {error}. Write it as '2026-03-29T01:00:00Z'."
        ) from None


def zone(name: str | ZoneInfo | None, what: str) -> ZoneInfo:
    """Find a time zone by its IANA name; None means UTC. UsageError shows names that are close."""
    if name is None:
        return ZoneInfo("UTC")
    if isinstance(name, ZoneInfo):
        # Typed as str, but None for ZoneInfo.from_file().
        if not name.key:
            raise UsageError(
                f"{what}={name!r} has no IANA name, so it cannot be stored. "
                "Give one by name: 'Europe/Berlin'."
            )
        _refuse_of_a_machine(name.key, what)
        return name
    given: object = name
    if not isinstance(given, str):
        raise UsageError(
            f"{what}={_short(given)} is not a time zone. Give an IANA name: 'Europe/Berlin'."
        )
    _refuse_of_a_machine(given, what)
    try:
        return ZoneInfo(given)
    except (KeyError, ValueError, OSError):  # unknown, not a zone's name, a folder of zones
        known = sorted(available_timezones() - _OF_A_MACHINE)
    if not known:
        raise UsageError(
            f"{what}={name!r}: this machine has no time zone data. Run: pip install tzdata"
        )
    raise UsageError(f"{what}={_short(name)} is not a known time zone. {_close_to(name, known)}")


def _refuse_of_a_machine(name: str, what: str) -> None:
    # right/ counts leap seconds, which nothing else here does.
    if name in _OF_A_MACHINE or name.startswith(("posix/", "right/")):
        raise UsageError(
            f"{what}={name!r} is not the same on every machine. "
            "Give the IANA name that is meant: 'Europe/Berlin'."
        )


def _close_to(name: str, known: list[str]) -> str:
    by_lower = {zone.lower(): zone for zone in known}
    wanted = name.lower().replace(" ", "_")[:100]
    close = [by_lower[n] for n in difflib.get_close_matches(wanted, by_lower, n=3, cutoff=0.6)]
    close += [z for z in known if z.rpartition("/")[2].lower() == wanted and z not in close]
    if close:
        return f"Did you mean {' or '.join(map(repr, close[:3]))}?"
    return "Give an IANA name, such as 'Europe/Berlin' or 'UTC'."
