"""What is known of a request before its service sees it, and what that is told of its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Where the claim stands in the ASGI scope, and in the WSGI environ.
CLAIM: Final = "onejob.idempotency"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that may carry a key. ``headers`` are by lower-case name; one that came several
    times is joined by commas. ``raw`` is the ASGI scope, or the WSGI environ."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a service is told of the key under which it is called.

    ``id`` is unique over all callers: give it to ``app.first`` to mark the work in your own
    transaction. ``key`` is what the client sent, ``token`` the claim's own.
    """

    id: str
    key: str
    token: int


def claim_of(raw: Mapping[str, Any]) -> Claim | None:
    """Return the claim of a request, by its ASGI scope, WSGI environ or Django's ``META``.

    None where it came without a key, or is none of those that need one.
    """
    claim = raw.get(CLAIM)
    return claim if isinstance(claim, Claim) else None


def by_authorization(request: Request) -> str | None:
    """Take the whole ``Authorization`` header for the caller; None where it is missing.

    For credentials that last, such as API keys. One that is renewed between two tries names
    another caller, whose request is carried out again: there, return the account that your
    verified token is about.
    """
    return request.headers.get("authorization") or None
