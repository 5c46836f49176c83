"""Answers instead of the service's own: problem details (RFC 9457) that say what to do next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from onejob.core.idempotency import HEADER

#: After this many seconds a client may ask again.
AGAIN_SECONDS: Final = 1

_KEEP_KEY: Final = "Do not send it under another key before you know: that would carry it out again"


@dataclass(frozen=True, slots=True)
class Problem:
    """One of them. ``code`` is stable; ``again`` says that the same request may be sent later."""

    status: HTTPStatus
    code: str
    detail: str
    again: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Return it as JSON."""
        told = {
            "title": self.status.phrase,
            "status": int(self.status),
            "code": self.code,
            "detail": self.detail,
        }
        return json.dumps({**told, **self.more}).encode()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return its headers."""
        told = [
            ("Content-Type", "application/problem+json"),
            ("Content-Length", str(len(self.body))),
            ("Cache-Control", "no-store"),
        ]
        return [*told, ("Retry-After", str(AGAIN_SECONDS))] if self.again else told


def malformed(why: str) -> Problem:
    """The key is none."""
    return Problem(HTTPStatus.BAD_REQUEST, "key_malformed", why)


MISSING: Final = Problem(
    HTTPStatus.BAD_REQUEST,
    "key_missing",
    f'this needs the header {HEADER}: "…". Make one key for this piece of work, and send the same '
    "one each time that you send it again.",
)

NO_CALLER: Final = Problem(
    HTTPStatus.FORBIDDEN,
    "caller_unknown",
    f"it is not known who sends this, and an {HEADER} is one caller's own. Send your credentials.",
)

NO_LENGTH: Final = Problem(
    HTTPStatus.LENGTH_REQUIRED,
    "length_required",
    "the end of this body cannot be told here. Send it with a Content-Length.",
)

INCOMPLETE: Final = Problem(
    HTTPStatus.BAD_REQUEST,
    "body_incomplete",
    "the body ended before its Content-Length, or that is no number. Nothing was carried out: send "
    "it again.",
)


def too_large(limit: int) -> Problem:
    """The body is too large to be compared."""
    return Problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_large",
        f"a request with an {HEADER} may have {limit:,} bytes here. Nothing was carried out.",
        more={"limit_bytes": limit},
    )


REUSED: Final = Problem(
    HTTPStatus.UNPROCESSABLE_ENTITY,
    "key_reused",
    "this key was used before for another request (its method, path, query or content differ). "
    "Nothing was carried out. Send the first request as it was, or make a key of its own for this "
    "one.",
)


def in_progress(age_seconds: float) -> Problem:
    """The first is at work."""
    return Problem(
        HTTPStatus.CONFLICT,
        "in_progress",
        "a request with this key is being carried out. Send the same again in a moment, with the "
        "same key: you get its answer.",
        again=True,
        more={"age_seconds": round(age_seconds, 3)},
    )


UNCLEAR: Final = Problem(
    HTTPStatus.CONFLICT,
    "outcome_unknown",
    "a request with this key was begun, and nobody knows whether it was carried out: it failed, or "
    "its process died. It is not carried out again by itself. Look at what you asked for. "
    f"{_KEEP_KEY}.",
)

TAKEN_OVER: Final = Problem(
    HTTPStatus.CONFLICT,
    "taken_over",
    "this took longer than it may, and another request with the same key took it over. Send the "
    "same again, with the same key: you get that one's answer.",
    again=True,
)

STORE_AWAY: Final = Problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "store_unavailable",
    "it cannot be checked now whether this was carried out before, so nothing was. Send the same "
    "again, with the same key.",
    again=True,
)


def not_kept(status: int) -> Problem:
    """It was carried out, and the answer is gone."""
    told = f" and answered with {status}" if status else ""
    return Problem(
        HTTPStatus.CONFLICT,
        "response_not_kept",
        f"a request with this key was carried out{told}; that answer is not kept. It is not "
        f"carried out again. Look at what you asked for. {_KEEP_KEY}.",
        more={"answered": status} if status else {},
    )
