"""httpx."""

from __future__ import annotations

from typing import Any, Final

from onejob.core.evidence import frames
from onejob.core.meaning import Meaning, of_status


def _unconnected(error: Any) -> Meaning:
    """Judge an error of connecting: nothing went out, unless a redirect was being followed."""
    return Meaning.UNKNOWN if _redirected(error) else Meaning.NOT_SENT


def _redirected(error: Any) -> bool:
    return any(
        frame.module == "httpx._client"
        and frame.function in ("_send_handling_auth", "_send_handling_redirects")
        and frame.variables.get("history", True)
        for frame in frames(error)
    )


def _of_answer(error: Any) -> Meaning:
    if error.response.history:
        return Meaning.UNKNOWN  # the first request was answered by "look there"
    return of_status(error.response.status_code)


RULES: Final[dict[str, Any]] = {
    "httpx.ConnectError": _unconnected,
    "httpx.ConnectTimeout": _unconnected,
    "httpx.PoolTimeout": _unconnected,
    "httpx.UnsupportedProtocol": _unconnected,
    "httpx.InvalidURL": _unconnected,
    "httpx.HTTPStatusError": _of_answer,
    "httpx.HTTPError": lambda error: Meaning.UNKNOWN,
}
