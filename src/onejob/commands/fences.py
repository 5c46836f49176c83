"""Fences: the highest token that is known at a resource.

Checked in the transaction that writes there, whose lock on the fence's row lasts to its end. A new
holder announces its token when it acquires (``leases.acquire``), so that an old one is refused even
where it would have written first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onejob.commands.command import Command, Parameters, Row, count, found
from onejob.core.run import Token
from onejob.core.time import Span
from onejob.errors import StaleToken, UsageError

#: Every store's tokens stay below it: sequences are far from it, and clocks in microseconds for
#: two hundred years. Where numbers are floats, those above it are not exact.
TOKENS_BELOW: Final = 2**53


def check(
    scope: str, resource: str, token: Token, *, idle_limit: Span, now: int | None = None
) -> Command[bool]:
    """Note ``token`` at a resource unless a higher one is known, and lock it to the end.

    Meant for ``within=``. ``idle_limit`` bounds how long the store lets that transaction sit idle.
    False: a higher token is known, see :func:`known`; or it is no token that this store can have
    given out, where its tokens follow its clock (Redis, MariaDB): then the known one is not higher.
    """
    parameters: Parameters = {
        "scope": scope,
        "resource": resource,
        "token": token,
        "idle_limit": idle_limit,
        "now": now,
    }
    return Command("fence_check", parameters, found)


def known(scope: str, resource: str) -> Command[Token | None]:
    """Read the highest token that is known at a resource; None where there is none."""
    parameters: Parameters = {"scope": scope, "resource": resource}
    return Command("fence_known", parameters, _token, writes=False, repeatable=True)


def refused(resource: str, token: Token, known: Token | None) -> StaleToken | UsageError:
    """Say why :func:`check` said no, by what is known there."""
    if known is not None and known > token:
        return StaleToken(f"resource {resource!r}", mine=token, current=known)
    return UsageError(
        f"token={token!r} is far above all that this store gives out. Give lease.token, or "
        "run.token."
    )


def purge(*, unused: Span, limit: int, now: int | None = None) -> Command[int]:
    """Forget resources that no token was shown at for a long while."""
    parameters: Parameters = {"unused": unused, "limit": limit, "now": now}
    return Command("fence_purge", parameters, count, repeatable=True)


def _token(rows: Sequence[Row]) -> Token | None:
    return Token(rows[0][0]) if rows else None
