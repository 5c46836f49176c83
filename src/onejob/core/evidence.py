"""What a traceback shows of the requests that were made before the one that failed.

"The connection was refused" says that nothing was sent only where it was the first request. A
client that follows redirects, or tries again by itself, raises the error of its last request, and
keeps the others to itself; the frames that the error came through still tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Libraries that call again by themselves what they were given.
_LOOPS: Final = frozenset(
    {"aiohttp_retry", "backoff", "httpx_retries", "opnieuw", "retry", "retrying", "stamina"}
    | {"tenacity", "urllib3_future", "niquests"}
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A function that an error came through, and its variables as it left them."""

    module: str
    function: str
    variables: Mapping[str, Any]


def frames(error: BaseException) -> Iterator[Frame]:
    """Yield the functions that an error came through, from the one that caught it inwards."""
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        yield Frame(str(frame.f_globals.get("__name__", "")), frame.f_code.co_name, frame.f_locals)
        traceback = traceback.tb_next


def came_through(error: BaseException, module: str, *functions: str) -> bool:
    """Tell whether an error came through one of these functions."""
    return any(f.module == module and f.function in functions for f in frames(error))


def tried_again(error: BaseException) -> bool:
    """Tell whether a library that repeats calls stands between us and the request."""
    return any(frame.module.partition(".")[0] in _LOOPS for frame in frames(error))
