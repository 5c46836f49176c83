"""What an error of the driver's means: nothing was done, or nobody knows, or ask again."""

from __future__ import annotations

import time
from typing import Any

from onejob.commands.command import Command
from onejob.errors import OnejobError, OutcomeUnknown, SchemaMismatch, StoreUnavailable

#: Rolled back by the server, or by us after it gave up waiting: safe to try again.
ROLLED_BACK = {1020, 1205, 1213}
#: Said before anything was done: no connection, no room, no rights, going down, read only.
NOT_NOW = {1040, 1044, 1045, 1053, 1129, 1130, 1203, 1226, 1290, 1317, 1698, 1792, 1836, 1969}
NOT_NOW |= {2002, 2003, 2005, 2026, 3024}
#: Closed before the request could reach it.
NOT_SENT = {0, 2006, 4031}
#: The connection broke while the reply was awaited.
LOST = {1927, 2013, 2014, 2027}
NO_TABLE = 1146
NO_DATABASE = 1049


def code_of(error: BaseException) -> int:
    """Return the number of a driver's error; -1 where it has none."""
    given = error.args[0] if error.args else -1
    return given if isinstance(given, int) else -1


def first_line(error: BaseException) -> str:
    """Return what people are shown of an error of the driver's."""
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0]


def meaning(error: Exception, where: str, *, unsure_of: str, wanted: int) -> OnejobError | None:
    """Say in our words what it means, in this one place; None: it is a mistake in a text.

    ``unsure_of`` names what may have been carried out if the reply is missing, "" for nothing.
    """
    code, why = code_of(error), first_line(error)
    if code == NO_TABLE:
        return SchemaMismatch(where, found=None, wanted=wanted)
    if code in LOST and unsure_of:
        return OutcomeUnknown(unsure_of, where, why)
    if code in LOST | NOT_NOW | NOT_SENT | ROLLED_BACK or isinstance(error, OSError):
        return StoreUnavailable(where, why)
    return None


def again(command: Command[Any], error: Exception, failures: int) -> bool:
    """Tell whether trying again is safe, and wait a little where others must finish first."""
    code = code_of(error)
    if code in ROLLED_BACK:
        time.sleep(0.002 * failures)
        # Whoever has waited in vain for as long as a wait may last does so twice at the most.
        return code != 1205 or failures < 2
    if code in NOT_SENT:
        return failures < 2
    silent = isinstance(error.__context__, TimeoutError)
    asked_twice = command.repeatable or not command.writes
    return failures < 2 and code in LOST and asked_twice and not silent
