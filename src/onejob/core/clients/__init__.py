"""What the errors of well-known clients mean, by the paths of their classes; none is imported.

A rule gets the error and returns what it means, another error that it stands for, or None where
the class says nothing by itself. What a class says holds for those derived from it.

An error counts as *not sent* only where the client raises it before the first byte of the first
request: whatever may be raised after one, whoever else may have raised it, is left unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from onejob.core.clients import (
    aiohttp,
    botocore,
    httpx,
    ours,
    requests,
    smtp,
    standard,
    stripe,
    urllib3,
)
from onejob.core.evidence import tried_again
from onejob.core.meaning import Meaning

Said: TypeAlias = Meaning | BaseException | None
Rule: TypeAlias = Callable[[Any], Said]

RULES: Final[Mapping[str, Rule]] = {
    **ours.RULES,
    **standard.RULES,
    **smtp.RULES,
    **httpx.RULES,
    **urllib3.RULES,
    **requests.RULES,
    **aiohttp.RULES,
    **botocore.RULES,
    **stripe.RULES,
}

#: How many errors may stand for each other.
_DEPTH_MAX: Final = 10


def meaning_of(error: BaseException, own: Mapping[str, Rule]) -> Meaning | None:
    """Tell what an error means; ``own`` rules come first. None: nobody knows such errors."""
    passed = []
    for _ in range(_DEPTH_MAX):
        passed.append(error)
        said = _said(error, own)
        certain = said is not None
        if not certain:
            said = _said(error, RULES)
        if isinstance(said, BaseException):
            error = said
            continue
        if said is None:
            # What stands for something that nobody knows is known to be unclear.
            return None if len(passed) == 1 else Meaning.UNKNOWN
        if not certain and any(tried_again(one) for one in passed):
            return Meaning.UNKNOWN
        return said
    return Meaning.UNKNOWN


def path_of(kind: type[BaseException]) -> str:
    """Return the name under which a class has its rule."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _said(error: BaseException, rules: Mapping[str, Rule]) -> Said:
    for kind in type(error).__mro__:
        rule = rules.get(path_of(kind))
        if rule is not None and (said := rule(error)) is not None:
            return said
    return None
