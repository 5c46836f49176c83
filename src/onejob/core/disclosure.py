"""What a log or a stored error may say: arguments that were allowed by name, errors less secrets.

An error's text is somebody else's: it may quote the URL or the header that it failed with. What
looks like a credential there is replaced; this is a net, and no promise that nothing slips through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

#: So much of an argument's value is shown.
VALUE_CHARACTERS: Final = 100

HIDDEN: Final = "***"

_IN_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@]{0,200}:)[^\s/@]{1,500}@", re.IGNORECASE)
_AFTER_NAME: Final = re.compile(
    r"((?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|authorization|credentials?)[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?:bearer |basic )?)"
    r"(?!\*\*\*)[^\s\"',;&)\]}]{1,2000}",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """Return a text without what stands where passwords, tokens and keys stand."""
    return _AFTER_NAME.sub(rf"\g<1>{HIDDEN}", _IN_URL.sub(rf"\g<1>{HIDDEN}@", text))


def allowed(args: str, fields: Sequence[str]) -> str:
    """Return those arguments of a run (JSON) that its job allows to be logged, for a log line."""
    if not fields:
        return ""
    try:
        given: Any = json.loads(args)
    except ValueError:
        return ""
    return " ".join(f"{name}={_shown(given[name])}" for name in fields if name in given)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}…"
