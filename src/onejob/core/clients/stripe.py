"""stripe, whose retries of its own carry one idempotency key.

So the last answer of a refusal that depends on the request alone holds for every try. Refusals of
the moment (a rate limit, a lock) do not: an earlier try may have gone through, or be under way.
"""

from __future__ import annotations

from typing import Any, Final

from onejob.core.evidence import frames
from onejob.core.meaning import Meaning, of_status

_HTTP: Final = frozenset({"stripe._http_client", "stripe.http_client"})


def _of_answer(error: Any) -> Meaning:
    status = error.http_status
    said = of_status(status) if isinstance(status, int) else Meaning.UNKNOWN
    return said if said is Meaning.FINAL or status in (401, 403) else Meaning.UNKNOWN


def _of_connection(error: Any) -> Meaning | BaseException:
    for frame in frames(error):
        if frame.module in _HTTP and frame.variables.get("num_retries", 0):
            return Meaning.UNKNOWN
    return error.__cause__ or Meaning.UNKNOWN


RULES: Final[dict[str, Any]] = {
    "stripe._error.StripeError": _of_answer,
    "stripe._error.APIConnectionError": _of_connection,
    "stripe.error.StripeError": _of_answer,
    "stripe.error.APIConnectionError": _of_connection,
}
