"""What a person should know about an expression before it runs: each a sentence.

Nothing here is an error. Each is something that expressions say exactly, and people read otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from onejob.core.cron import Cron
from onejob.core.cron_days import LONGEST, Days
from onejob.core.cron_fields import Fields
from onejob.core.cron_words import MONTHS, listed, runs
from onejob.core.every import Every
from onejob.core.time import DAY, Instant, in_zone, show_span, zone
from onejob.core.timing import Timing

_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
_MONTHS_AHEAD: Final = 12


def cautions(timing: Timing, after: Instant) -> list[str]:
    """Return what to know about a schedule, counted from an instant."""
    match timing:
        case Cron():
            return list(_of_cron(timing, after))
        case Every(interval) if interval >= DAY:
            return [
                f"every {show_span(interval)} is real elapsed time: its local time moves at each "
                "clock change. For a time of day write a cron expression."
            ]
        case _:
            return []


def _of_cron(cron: Cron, after: Instant) -> Iterator[str]:
    fields = cron.calendar().fields
    if cron.after(after) is None:
        why = "no such date comes" if not Days(fields).ever else "none of its times comes"
        yield f"it never fires: {why} within 48 years."
        return
    yield from _either_day(cron, fields, after)
    yield from _star_step(cron, fields)
    yield from _short_months(cron, fields)
    yield from _uneven_steps(cron, fields)
    if len(fields.seconds) > 1:
        a_day = len(fields.seconds) * len(fields.minutes) * len(fields.hours)
        yield f"it fires more than once a minute: {a_day:,} times a day."
    if cron.on_fold != "first" and not fields.fixed:
        yield (
            f"on_fold={cron.on_fold!r} says nothing here: a wildcard in second, minute or hour "
            "runs in real elapsed time, whatever comes twice."
        )
    if cron.on_gap == "skip" and fields.every_hour:
        yield "on_gap='skip' says nothing here: what runs in every hour has none to skip."


def _either_day(cron: Cron, fields: Fields, after: Instant) -> Iterator[str]:
    if fields.both_days:
        return
    if _restricted(fields.days, 31) and _restricted(fields.weekdays, 7):
        counts = ", ".join(f"{month} {count}" for month, count in _by_month(cron, fields, after))
        yield (
            "day-of-month and day-of-week are both given: cron fires where either matches, not "
            f"only where both do. Days a month: {counts}."
        )
    elif _restricted(fields.days, 31) or _restricted(fields.weekdays, 7):
        yield (
            "day-of-month and day-of-week are both given, and one of them is every day: cron fires "
            "where either matches, so it fires every day. Write * for the one that is not meant."
        )


def _restricted(values: frozenset[int] | frozenset[int | tuple[int, int]], size: int) -> bool:
    return len({value for value in values if isinstance(value, int) and value >= 0}) < size


def _by_month(cron: Cron, fields: Fields, after: Instant) -> Iterator[tuple[str, int]]:
    """Return on how many days of each of the next twelve months it fires, this one's as a whole."""
    days = Days(fields)
    local = in_zone(after, zone(cron.tz, "tz"))
    month = local.year * 12 + local.month - 1
    for index in range(month, month + _MONTHS_AHEAD):
        begin, end = (date(n // 12, n % 12 + 1, 1).toordinal() for n in (index, index + 1))
        count = days.count(begin - _DAY_ZERO, end - _DAY_ZERO)
        yield f"{index // 12}-{index % 12 + 1:02d}", count


def _star_step(cron: Cron, fields: Fields) -> Iterator[str]:
    word = _word(cron, -3)
    if not word.startswith("*/"):
        return
    days = sorted(fields.days)
    yield (
        f"{word} in day-of-month begins anew each month: days {listed(map(str, days))}, so the "
        "last and the first are not that far apart."
    )
    if _restricted(fields.weekdays, 7):
        yield (
            f"{word} in day-of-month begins with *, so day-of-month and day-of-week must both "
            "match, as in cronie. Other crons fire where either does."
        )


def _short_months(cron: Cron, fields: Fields) -> Iterator[str]:
    if _word(cron, -3).startswith("*") or fields.days >= set(range(1, 29)):
        return  # nobody has named them: it is the whole month, or its days by a step
    for day in sorted({29, 30, 31} & fields.days):
        without = [month for month in sorted(fields.months) if LONGEST[month - 1] < day]
        if without:
            names = listed(runs(without, lambda month: MONTHS[month - 1]))
            yield f"day {day} does not exist in {names}. For the last day of a month write L."
        elif day == 29 and 2 in fields.months:
            yield "day 29 exists in February of leap years only. For the last day write L."


def _uneven_steps(cron: Cron, fields: Fields) -> Iterator[str]:
    six = [("second", 60, fields.seconds)] if len(cron.expression.split()) == 6 else []
    places = [*six, ("minute", 60, fields.minutes), ("hour", 24, fields.hours)]
    for n, (name, size, values) in enumerate(places):
        word = _word(cron, n)
        step = word.removeprefix("*/")
        if word.startswith("*/") and step.isdecimal() and size % int(step):
            last, first = values[-1], size + values[0]
            yield (
                f"{word} in {name} does not divide {size}: from {last} to the next {values[0]} "
                f"it is {first - last}, not {int(step)}. For even steps use an interval."
            )


def _word(cron: Cron, position: int) -> str:
    words = cron.expression.split()
    return words[position] if len(words) > 1 else ""
