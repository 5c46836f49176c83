"""Names and keys that users give: one rule for all, checked before any I/O.

A key that is blank, or cut at some limit, silently means "no protection" or "somebody else's key".
So nothing is trimmed, folded or normalised here: a name is stored exactly as given, or refused.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from onejob.errors import UsageError

NAME_BYTES_MAX: Final = 1_024
"""Of UTF-8, not characters: databases count bytes."""

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_RESERVED: Final = ("pg_", "sqlite")
# Characters that show nothing, though Unicode files them under letters, marks and symbols.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | frozenset(
    map(chr, range(0xFE00, 0xFE10))
)


def check_name(value: object, *, what: str) -> str:
    """Return the name unchanged, or raise UsageError that says what is wrong and what to do.

    A name is text of 1 to 1,024 bytes of UTF-8, without NUL, without surrounding space, and with
    something in it to see. ``what`` names it in the message ("key", "job name").
    """
    if not isinstance(value, str):
        raise UsageError(
            f"{what} must be text, not {type(value).__name__}. "
            f"Give a str made of business identity, such as 'invoice-42'."
        )
    name = str.__str__(value)
    if not name or all(map(_shows_nothing, name)):
        raise UsageError(
            f"{what} {name!r} is blank. Give one that names the work, such as 'invoice-42'."
        )
    if name != name.strip():
        raise UsageError(
            f"{what} {_short(name)} has space around it. Strip it first: names are never trimmed."
        )
    if "\0" in name:
        raise UsageError(f"{what} {_short(name)} has a NUL character. Remove it.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise UsageError(
            f"{what} {_short(name)} has a lone surrogate, which UTF-8 cannot hold. "
            "Decode the text properly before it is used as a name."
        ) from None
    if size > NAME_BYTES_MAX:
        raise UsageError(
            f"{what} {_short(name)} is {size:,} bytes of UTF-8, the limit is {NAME_BYTES_MAX:,}. "
            "Use a shorter one, or a hash of it."
        )
    return name


def check_schema(value: object) -> str:
    """Return the schema's name unchanged, or raise UsageError.

    Lower-case ASCII letters, digits and ``_``, at most 48 and not a digit first: the same text is
    a quoted schema in PostgreSQL, a prefix of table names elsewhere, and leaves room for both.
    """
    if isinstance(value, str) and _SCHEMA.fullmatch(value):
        if value.startswith(_RESERVED):
            raise UsageError(
                f"schema {value!r} is reserved: names that begin with pg_ are PostgreSQL's own, "
                "with sqlite SQLite's. Use another, such as 'onejob'."
            )
        return str.__str__(value)
    shown = _short(value) if isinstance(value, str) else type(value).__name__
    raise UsageError(
        f"schema {shown} is not usable. Use 1 to 48 of a-z, 0-9 and _, not starting with a "
        "digit, such as 'onejob'."
    )


def _shows_nothing(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "Z" or category in ("Cc", "Cf") or character in _BLANK


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:57]}...")
