"""requests, which tells in its arguments what urllib3 has told it."""

from __future__ import annotations

from typing import Any, Final

from onejob.core.evidence import came_through
from onejob.core.meaning import Meaning, of_status


def _as_beneath(error: Any) -> Meaning | BaseException:
    """Judge a ConnectionError, or ConnectTimeout, by the error of urllib3 that it carries."""
    beneath = error.args[0] if error.args else None
    if _redirected(error) or not isinstance(beneath, BaseException):
        return Meaning.UNKNOWN
    # An error of a socket is urllib3's only once it had a connection.
    return Meaning.UNKNOWN if isinstance(beneath, OSError) else beneath


def _unsent(error: Any) -> Meaning:
    """Judge what requests refuses to send."""
    return Meaning.UNKNOWN if _redirected(error) else Meaning.NOT_SENT


def _redirected(error: Any) -> bool:
    return came_through(error, "requests.sessions", "resolve_redirects")


def _of_answer(error: Any) -> Meaning:
    response = error.response
    if response is None or response.history:
        return Meaning.UNKNOWN
    if getattr(getattr(response.raw, "retries", None), "history", ()):
        return Meaning.UNKNOWN  # not the first try's answer
    return of_status(response.status_code)


RULES: Final[dict[str, Any]] = {
    "requests.exceptions.ConnectionError": _as_beneath,
    "requests.exceptions.ProxyError": lambda error: Meaning.UNKNOWN,
    "requests.exceptions.SSLError": lambda error: Meaning.UNKNOWN,
    "requests.exceptions.MissingSchema": _unsent,
    "requests.exceptions.InvalidSchema": _unsent,
    "requests.exceptions.InvalidURL": _unsent,
    "requests.exceptions.InvalidHeader": _unsent,
    "requests.exceptions.URLRequired": _unsent,
    "requests.exceptions.HTTPError": _of_answer,
    "requests.exceptions.RequestException": lambda error: Meaning.UNKNOWN,
}
