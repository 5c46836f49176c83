"""Order App versions: an int, or the text of PEP 440, into keys that compare.

Written here because the one thing asked of a version is "is it newer?", and that does not earn a
dependency.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from onejob.errors import UsageError

VersionKey: TypeAlias = tuple[int, tuple[int, ...], tuple[int, int], int, int]

_VERSION_LENGTH_MAX: Final = 100
_PEP_440: Final = re.compile(
    r"""v?(?:(?P<epoch>\d+)!)?
        (?P<release>\d+(?:\.\d+)*)
        (?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d*))?
        (?P<post>-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?
        (?P<dev>[-_.]?dev[-_.]?\d*)?
        (?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?""",
    re.VERBOSE | re.ASCII,
)
_PRE: Final = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_BEFORE_PRE: Final = (-1, 0)
_NO_PRE: Final = (9, 0)
_NO_DEV: Final = 10**_VERSION_LENGTH_MAX


def version_key(version: int | str) -> VersionKey:
    """Return a key that compares as PEP 440 orders: dev < a < b < rc < release < post.

    1.0 and 1.0.0 are equal, and so are 7 and "7". What follows ``+`` is ignored: builds of one
    release are not newer than one another. Raises UsageError for anything else.
    """
    given: object = version
    text = str(version) if isinstance(given, int) and not isinstance(given, bool) else given
    found = (
        _PEP_440.fullmatch(text.strip().lower())
        if isinstance(text, str) and len(text) <= _VERSION_LENGTH_MAX
        else None
    )
    if found is None:
        raise UsageError(
            f"version={version!r} cannot be ordered. Give a whole number from 0, or a version "
            "such as '2026.3.1' or '1.4rc2'."
        )
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    pre = (_PRE[found["pre"]], int(found["pre_n"] or 0)) if found["pre"] else _NO_PRE
    if found["dev"] and not found["pre"] and not found["post"]:
        pre = _BEFORE_PRE  # 1.0.dev1 comes before 1.0a1
    post = _number(found["post"]) if found["post"] else -1
    dev = _number(found["dev"]) if found["dev"] else _NO_DEV
    return int(found["epoch"] or 0), tuple(release), pre, post, dev


def _number(text: str) -> int:
    digits = re.search(r"\d+", text)
    return int(digits[0]) if digits else 0
