"""What the errors of your calls mean for their effects: ours are known, add yours.

``register(GatewayBusy, REFUSED)`` once, where your program starts. Known without it: httpx,
requests, urllib3, aiohttp, smtplib, urllib, botocore and stripe, each only as far as it is certain.
An error that nobody knows leaves its effect unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from onejob.core.clients import Rule, meaning_of, path_of
from onejob.core.meaning import Meaning, of_status
from onejob.errors import UsageError

E = TypeVar("E", bound=BaseException)

NOT_SENT: Final = Meaning.NOT_SENT
REFUSED: Final = Meaning.REFUSED
FINAL: Final = Meaning.FINAL
UNKNOWN: Final = Meaning.UNKNOWN

Says: TypeAlias = Meaning | Callable[[Any], Meaning | BaseException | None]

__all__ = [
    "FINAL",
    "NOT_SENT",
    "REFUSED",
    "UNKNOWN",
    "Meaning",
    "meaning",
    "of_cause",
    "of_status",
    "register",
]

_own: dict[str, Rule] = {}


def register(error: type[BaseException] | str, says: Says) -> None:
    """Say what errors of a class, and of those derived from it, mean for the effect.

    ``error`` is the class, or its path (``"gateway.errors.Busy"``), so that its library need not be
    imported. ``says`` is NOT_SENT, REFUSED, FINAL or UNKNOWN, or a function that gets the error and
    returns one of them, the error that it stands for (see :func:`of_cause`), or None where it
    cannot tell. It comes before what is known of the class, and replaces an earlier word on it.
    """
    path = path_of(error) if isinstance(error, type) else error
    if not isinstance(path, str) or "." not in path.strip("."):
        raise UsageError(
            f"error={error!r} must be an exception type, or the path of one: 'gateway.errors.Busy'."
        )
    if isinstance(error, type) and not issubclass(error, BaseException):
        raise UsageError(f"error={error.__name__} is no exception type.")
    if not isinstance(says, Meaning) and not callable(says):
        raise UsageError(
            f"says={says!r} must be one of onejob.outcomes' NOT_SENT, REFUSED, FINAL and UNKNOWN, "
            "or a function that gets the error and returns one of them."
        )
    _own[path] = _always(says) if isinstance(says, Meaning) else says


def meaning(error: BaseException) -> Meaning | None:
    """Tell what an error means; None where nobody knows errors of its class (so: unknown)."""
    return meaning_of(error, _own)


def of_cause(error: BaseException) -> Meaning | BaseException:
    """Tell what an error means by its ``__cause__``, for a wrapper that makes one request.

    ``register(PaymentError, of_cause)``. Not for one that tries again by itself: the error of its
    last request says nothing about those before it.
    """
    return error.__cause__ or Meaning.UNKNOWN


def _always(said: Meaning) -> Rule:
    return lambda error: said
