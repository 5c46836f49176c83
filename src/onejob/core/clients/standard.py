"""Sockets, asyncio's connections and urllib: the standard library."""

from __future__ import annotations

import socket
from typing import Any, Final

from onejob.core.evidence import came_through
from onejob.core.meaning import Meaning, of_status


def of_socket(error: OSError) -> Meaning | None:
    """Tell what a bare error of the operating system means.

    Only where it is all that happened: as the cause of another error, or raised while one was
    handled, it may be the second request's, after a first one that went out.
    """
    if error.__cause__ is not None or error.__context__ is not None:
        return None
    return Meaning.NOT_SENT if is_unconnected(error) else None


def is_unconnected(error: BaseException) -> bool:
    """Tell whether this is an error of connecting, whatever has been made of it since."""
    return (
        isinstance(error, ConnectionRefusedError | socket.gaierror)
        or came_through(error, "socket", "create_connection")
        or came_through(error, "asyncio.base_events", "create_connection")
    )


def _of_url(error: Any) -> Meaning | None:
    """Judge urllib's URLError by its reason."""
    if came_through(error, "urllib.request", "http_error_302"):
        return Meaning.UNKNOWN  # the request that was redirected had gone out
    reason = error.reason
    if isinstance(reason, BaseException) and is_unconnected(reason):
        return Meaning.NOT_SENT
    return Meaning.UNKNOWN


def _of_answer(error: Any) -> Meaning:
    if came_through(error, "urllib.request", "http_error_302"):
        return Meaning.UNKNOWN
    return of_status(error.code)


RULES: Final[dict[str, Any]] = {
    "builtins.OSError": of_socket,
    "urllib.error.URLError": _of_url,
    "urllib.error.HTTPError": _of_answer,
}
