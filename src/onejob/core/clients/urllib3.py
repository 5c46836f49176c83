"""urllib3, alone and beneath requests and botocore.

It tries again by itself: three times by default where no connection was made, and for some methods
also after a request went out. Its error is that of the last try; the tries before it stand in the
``Retry`` that the pool had in its hands.
"""

from __future__ import annotations

from typing import Any, Final

from onejob.core.evidence import frames
from onejob.core.meaning import Meaning

_UNCONNECTED: Final = frozenset(
    {"ConnectTimeoutError", "NewConnectionError", "NameResolutionError", "EmptyPoolError"}
)


def _unconnected(error: Any) -> Meaning:
    return Meaning.UNKNOWN if went_out_before(error) else Meaning.NOT_SENT


def _of_the_last_try(error: Any) -> Meaning:
    if is_unconnected(error.reason) and not went_out_before(error):
        return Meaning.NOT_SENT
    return Meaning.UNKNOWN


def is_unconnected(reason: object) -> bool:
    """Tell whether a try ended before it had a connection."""
    return any(
        kind.__name__ in _UNCONNECTED and kind.__module__ == "urllib3.exceptions"
        for kind in type(reason).__mro__
    )


def went_out_before(error: BaseException) -> bool:
    """Tell whether a try before the last may have gone out, redirects included."""
    pools = [
        frame.variables
        for frame in frames(error)
        if frame.module == "urllib3.connectionpool" and frame.function == "urlopen"
    ]
    if not pools:
        return False
    # The innermost one knows all tries; where its variables are gone, nobody does.
    history = getattr(pools[-1].get("retries"), "history", None)
    return history is None or not all(is_unconnected(one.error) for one in history)


RULES: Final[dict[str, Any]] = {
    "urllib3.exceptions.ConnectTimeoutError": _unconnected,
    "urllib3.exceptions.EmptyPoolError": _unconnected,
    "urllib3.exceptions.LocationValueError": _unconnected,
    "urllib3.exceptions.MaxRetryError": _of_the_last_try,
    "urllib3.exceptions.HTTPError": lambda error: Meaning.UNKNOWN,
}
