"""aiohttp, which repeats GET, PUT and DELETE once where a kept connection had gone."""

from __future__ import annotations

from typing import Any, Final

from onejob.core.evidence import frames
from onejob.core.meaning import Meaning, of_status

_REPEATED: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})


def _unconnected(error: Any) -> Meaning:
    return Meaning.UNKNOWN if _went_out_before(error) else Meaning.NOT_SENT


def _went_out_before(error: Any) -> bool:
    for frame in frames(error):
        if frame.module == "aiohttp.client" and frame.function == "_request":
            may_repeat = str(frame.variables.get("method", "GET")).upper() in _REPEATED
            if may_repeat and not frame.variables.get("retry_persistent_connection"):
                return True
            if frame.variables.get("history", True):
                return True
    return False


def _of_answer(error: Any) -> Meaning:
    return Meaning.UNKNOWN if error.history else of_status(error.status)


RULES: Final[dict[str, Any]] = {
    "aiohttp.client_exceptions.ClientConnectorError": _unconnected,
    "aiohttp.client_exceptions.ClientConnectorCertificateError": _unconnected,
    "aiohttp.client_exceptions.ConnectionTimeoutError": _unconnected,
    "aiohttp.client_exceptions.InvalidURL": _unconnected,
    "aiohttp.client_exceptions.NonHttpUrlClientError": _unconnected,
    "aiohttp.client_exceptions.ClientHttpProxyError": lambda error: Meaning.UNKNOWN,
    "aiohttp.client_exceptions.ClientResponseError": _of_answer,
    "aiohttp.client_exceptions.ClientError": lambda error: Meaning.UNKNOWN,
}
