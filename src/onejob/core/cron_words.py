"""What an expression means, in words: ``every day at 02:00``, ``every 15 minutes on Sunday``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Final

from cronsim import CronSim

from onejob.core.cron_fields import Fields

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_WEEKDAYS: Final = (
    *("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
)
_ORDINALS: Final = ("", "first", "second", "third", "fourth", "fifth")
_TIMES_MAX: Final = 6
_ITEMS_MAX: Final = 8


def words(fields: Fields) -> str:
    """Describe an expression, without its zone."""
    times, days = _times(fields), _days(fields)
    if days:
        return f"{times} {days}"
    daily = times.startswith("at ") and not fields.every_hour
    return f"every day {times}" if daily else times


def _times(fields: Fields) -> str:
    seconds, minutes, hours = fields.seconds, fields.minutes, fields.hours
    if len(seconds) * len(minutes) * len(hours) <= _TIMES_MAX:
        return "at " + listed(
            f"{hour:02d}:{minute:02d}" + (f":{second:02d}" if seconds != (0,) else "")
            for hour, minute, second in product(hours, minutes, seconds)
        )
    if seconds != (0,):
        return _with_seconds(fields)
    repeating = _repeating(minutes, 60, "minute")
    if repeating:
        return f"{repeating}{_in_hours(fields)}"
    at = listed(runs(minutes, lambda minute: f":{minute:02d}"))
    every = _repeating(hours, 24, "hour")
    if every:
        return f"{every} at {at}"
    in_row = len(minutes) == 1 and hours[-1] - hours[0] == len(hours) - 1
    return f"{'every hour' if in_row else f'at {at}'}{_in_hours(fields)}"


def _with_seconds(fields: Fields) -> str:
    said = _repeating(fields.seconds, 60, "second")
    said = said or f"at second {listed(runs(fields.seconds, str))}"
    if len(fields.minutes) < 60:
        at = listed(runs(fields.minutes, lambda minute: f":{minute:02d}"))
        return f"{said} of the minutes {at}{_in_hours(fields) or ' of every hour'}"
    if said.startswith("at "):
        said += " of every minute"
    return f"{said}{_in_hours(fields)}"


def _repeating(values: tuple[int, ...], size: int, unit: str) -> str:
    """Return ``every 15 minutes`` where the values are exactly that all the time, else ""."""
    step = size // len(values)
    if len(values) == 1 or values != tuple(range(0, size, step)):
        return ""
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _in_hours(fields: Fields) -> str:
    hours = fields.hours
    if fields.every_hour:
        return ""
    if hours[-1] - hours[0] == len(hours) - 1:
        first, last = fields.minutes[0], fields.minutes[-1]
        return f" from {hours[0]:02d}:{first:02d} to {hours[-1]:02d}:{last:02d}"
    return f" of the hours {listed(runs(hours, lambda hour: f'{hour:02d}'))}"


def _days(fields: Fields) -> str:
    """Return on which days, "" for every day."""
    by_day, by_weekday, months = _month_days(fields), _week_days(fields), _months(fields)
    in_months = f" in {months}" if months else ""
    if not fields.both_days and not (by_day and by_weekday):
        by_day = by_weekday = ""  # one of the two always holds, and one is enough
    if by_day and by_weekday:
        of_month = f"on {by_day} of the month"
        if fields.both_days:
            return f"{of_month} where that is {by_weekday}{in_months}"
        return f"{of_month}, and on {by_weekday} as well{in_months}"
    if by_day:
        return f"on {by_day} of {months or 'the month'}"
    if by_weekday:
        return f"on {by_weekday}{in_months}"
    return f"on every day of {months}" if months else ""


def _month_days(fields: Fields) -> str:
    """Return the days of a month, "" for all of them."""
    numbers = sorted(day for day in fields.days if day > 0)
    if len(numbers) == 31:
        return ""
    said = []
    if numbers:
        said.append(("days " if len(numbers) > 1 else "day ") + listed(runs(numbers, str)))
    if CronSim.LAST in fields.days:
        said.append("the last day")
    if CronSim.LAST_WEEKDAY in fields.days:
        said.append("the last working day (Monday to Friday)")
    return " and ".join(said)


def _week_days(fields: Fields) -> str:
    """Return the days of a week, "" for all of them."""
    plain = sorted((day + 6) % 7 for day in fields.weekdays if isinstance(day, int))
    if len(plain) == 7:
        return ""
    numbered = sorted(day for day in fields.weekdays if isinstance(day, tuple))
    said = runs(plain, lambda day: _WEEKDAYS[(day + 1) % 7])
    for day, number in numbered:
        which = "last" if number == CronSim.LAST else _ORDINALS[number]
        said.append(f"the {which} {_WEEKDAYS[day]} of the month")
    return listed(said)


def _months(fields: Fields) -> str:
    """Return the months, "" for all of them."""
    if len(fields.months) == 12:
        return ""
    return listed(runs(sorted(fields.months), lambda month: MONTHS[month - 1]))


def runs(values: Sequence[int], said: Callable[[int], str]) -> list[str]:
    """Say numbers one by one, and three or more in a row as ``a to b``."""
    found: list[str] = []
    start = 0
    for n, value in enumerate(values):
        if n + 1 < len(values) and values[n + 1] == value + 1:
            continue
        if n - start >= 2:
            found.append(f"{said(values[start])} to {said(value)}")
        else:
            found += [said(one) for one in values[start : n + 1]]
        start = n + 1
    return found


def listed(items: Iterable[str]) -> str:
    """Say a list: ``a, b and c``; of a long one the beginning and the end."""
    said = list(items)
    if len(said) > _ITEMS_MAX:
        return f"{', '.join(said[:3])} … {said[-1]} ({len(said)} of them)"
    if len(said) < 2:
        return "".join(said)
    return f"{', '.join(said[:-1])} and {said[-1]}"
