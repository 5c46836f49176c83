"""What the fields of a cron expression say, and exactly what is wrong with a bad one.

Five fields, from minute to day-of-week; a sixth, put first, holds seconds.

cronsim reads each item of a field. Around it stand the things it does not do: shortcuts such as
``@daily``, ``FRIL``, and an error that names the field, its position and the reason. Where it
differs from what is promised, the reason stands beside the line that corrects it.

Days follow cronie: when day-of-month or day-of-week begins with ``*`` both must match, else either.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, cast

from cronsim.cronsim import CronSim, CronSimError, Field

from onejob.errors import UsageError

_SHORTCUTS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EXPRESSION_LENGTH_MAX: Final = 1_000
_MONTHS: Final = (
    *("JAN", "FEB", "MAR", "APR", "MAY", "JUN"),
    *("JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class _Slot:
    """One of the places: its name, its bounds, the words it knows."""

    name: str
    field: Field
    least: int
    most: int
    words: tuple[str, ...] = ()
    also: str = ""


_SLOTS: Final = (
    _Slot("second", Field.SECOND, 0, 59),
    _Slot("minute", Field.MINUTE, 0, 59),
    _Slot("hour", Field.HOUR, 0, 23),
    _Slot("day-of-month", Field.DAY, 1, 31, also=", L or LW"),
    _Slot("month", Field.MONTH, 1, 12, _MONTHS, also=" or JAN-DEC"),
    _Slot("day-of-week", Field.DOW, 0, 7, _WEEKDAYS, also=", SUN-SAT, 5L or MON#1"),
)


@dataclass(frozen=True, slots=True)
class Fields:
    """A parsed expression: which seconds, minutes, hours and days match, each ascending."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int | tuple[int, int]]
    both_days: bool
    fixed: bool
    """No second, minute or hour is a wildcard: the expression names times of day."""

    @property
    def every_hour(self) -> bool:
        """It runs in each hour of the day."""
        return len(self.hours) == 24

    def days_of(self, weekday: int, length: int) -> tuple[int, ...]:
        """Return the matching days of a month of that length, ascending.

        ``weekday`` is that of its first day, counted from Monday = 0.
        """
        return tuple(day for day in range(1, length + 1) if self._matches(day, weekday, length))

    def _matches(self, day: int, first: int, last: int) -> bool:
        weekday = (first + day) % 7  # cron counts from Sunday = 0
        by_weekday = (
            weekday in self.weekdays
            or (weekday, (day + 6) // 7) in self.weekdays
            or (day + 7 > last and (weekday, CronSim.LAST) in self.weekdays)
        )
        by_day = (
            day in self.days
            or (day == last and CronSim.LAST in self.days)
            or (CronSim.LAST_WEEKDAY in self.days and day == _last_working_day(first, last))
        )
        return (by_day and by_weekday) if self.both_days else (by_day or by_weekday)


def _last_working_day(first: int, last: int) -> int:
    return last - max(0, (first + last - 1) % 7 - 4)


def parse(expression: str) -> Fields:
    """Parse fields or a shortcut; UsageError names the field, its position and the reason.

    Nothing depends on today's date. A date that never comes (31 February) is accepted: such
    expressions are used on purpose to say "never".
    """
    if not isinstance(expression, str):
        raise UsageError(f"a cron expression must be text, not {type(expression).__name__}.")
    return _parse(expression)


@lru_cache(maxsize=4_096)
def _parse(expression: str) -> Fields:
    words = _split(expression)
    slots = _SLOTS[-len(words) :]
    values = [_read(expression, n, slots[n], word) for n, word in enumerate(words)]
    if len(words) == 5:
        words, values = ["0", *words], [{0}, *values]
    seconds, minutes, hours, days, months, weekdays = values
    return Fields(
        seconds=tuple(sorted(_whole(seconds))),
        minutes=tuple(sorted(_whole(minutes))),
        hours=tuple(sorted(_whole(hours))),
        days=_whole(days),
        months=_whole(months),
        weekdays=frozenset(
            (item[0] % 7, item[1]) if isinstance(item, tuple) else item % 7 for item in weekdays
        ),
        both_days=words[3].startswith("*") or words[5].startswith("*"),
        fixed=not any(_is_wildcard(_SLOTS[n], words[n], values[n]) for n in (0, 1, 2)),
    )


def _split(expression: str) -> list[str]:
    if len(expression) > _EXPRESSION_LENGTH_MAX or not expression.isascii():
        raise UsageError(
            f"cron {expression[:60]!r}: use at most {_EXPRESSION_LENGTH_MAX:,} ASCII characters."
        )
    text = expression.strip()
    if text.startswith("@"):
        return _shortcut(text).split()
    words = text.upper().split()
    if len(words) not in (5, 6):
        count = f"{len(words)} field{'' if len(words) == 1 else 's'}"
        raise UsageError(
            f"cron {expression!r} has {count}, not 5: "
            "minute hour day-of-month month day-of-week, as in '0 2 * * *'. "
            "A sixth, for seconds, comes first."
        )
    return words


def _shortcut(text: str) -> str:
    if (fields := _SHORTCUTS.get(text.lower())) is not None:
        return fields
    if text.lower() == "@reboot":
        raise UsageError("cron '@reboot' names no time: a fleet has no boot. Use '@daily' or such.")
    close = get_close_matches(text.lower(), _SHORTCUTS, n=1)
    known = repr(close[0]) if close else f"one of {' '.join(_SHORTCUTS)}"
    raise UsageError(f"cron {text!r} is not a known shortcut. Use {known}, or five fields.")


def _read(expression: str, position: int, slot: _Slot, word: str) -> set[int | tuple[int, int]]:
    found: set[int | tuple[int, int]] = set()
    for item in word.split(","):
        try:
            if slot.field is Field.DAY and "L" in item and item not in ("L", "LW"):
                raise CronSimError("cronsim takes L/2 for L")
            found |= slot.field.parse(_with_number(slot, item))
        except CronSimError:
            raise UsageError(
                f"cron {expression!r}: field {position + 1} ({slot.name}): {_reason(slot, item)}. "
                f"It takes {slot.least}-{slot.most}{slot.also}, *, ranges, lists and steps."
            ) from None
    return found


def _with_number(slot: _Slot, item: str) -> str:
    # cronsim knows 5L but not FRIL.
    if slot.field is Field.DOW and item.endswith("L") and item[:-1] in slot.words:
        return f"{slot.words.index(item[:-1])}L"
    return item


def _reason(slot: _Slot, item: str) -> str:
    base, slash, step = item.partition("/")
    if not item:
        return "an item is empty (a comma too many)"
    if item == "?":
        return "'?' is not cron's; write *"
    if slash and not step.isdecimal():
        return f"the step {step!r} is not a whole number"
    if slash and int(step) == 0:
        return "a step of 0 never moves"
    ends = base.split("-")
    for end in ends:
        if end.isdecimal() and not slot.least <= int(end) <= slot.most:
            return f"{int(end)} is outside {slot.least}-{slot.most}"
    if len(ends) == 2 and all(ends) and all(e.isdecimal() or e in slot.words for e in ends):
        return f"the range {base} runs backwards; split it in two, with a comma"
    return f"{item!r} is not understood"


def _whole(values: set[int | tuple[int, int]]) -> frozenset[int]:
    """All fields but day-of-week hold plain numbers only."""
    return frozenset(cast("set[int]", values))


def _is_wildcard(slot: _Slot, word: str, values: set[int | tuple[int, int]]) -> bool:
    # 0-23 in the hour says no less than * does.
    every = len(values) == slot.most - slot.least + 1
    return every or any(item.startswith("*") for item in word.split(","))
