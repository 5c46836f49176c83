"""What an error of a call says about its effect: four answers, and nothing between them.

Only what is certain is said. Where the provider may have heard us, nobody knows: that is an answer
too.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Meaning(StrEnum):
    """What became of the request.

    - ``NOT_SENT``: nobody was reached. The claim is released, and a retry calls again.
    - ``REFUSED``: the provider did nothing, and may do it another time. Released as well.
    - ``FINAL``: the provider did nothing, and never will. Recorded; a repeat calls nobody.
    - ``UNKNOWN``: it may have happened.
    """

    NOT_SENT = "not sent"
    REFUSED = "refused"
    FINAL = "refused for good"
    UNKNOWN = "unknown"


#: Refusals of the moment: credentials that may be put right, locks, preconditions, rate limits.
_NOT_NOW: Final = frozenset({401, 403, 407, 409, 421, 423, 424, 425, 428, 429})
#: "Request timeout" is also said by proxies that had passed the request on.
_UNSURE: Final = frozenset({408, 499})


def of_status(status: int) -> Meaning:
    """Tell what an HTTP status says of the one request that it answers.

    From 500 on the server, or a proxy before it, failed at an unknown point. A redirect that nobody
    followed may come after the deed: 303 says "done, look there".
    """
    if not 400 <= status < 500 or status in _UNSURE:
        return Meaning.UNKNOWN
    return Meaning.REFUSED if status in _NOT_NOW else Meaning.FINAL


def of_reply(code: int) -> Meaning:
    """Tell what a negative SMTP reply says: 5xx for good, 4xx for now (RFC 5321, 4.2.1)."""
    if 500 <= code < 600:
        return Meaning.FINAL
    return Meaning.REFUSED if 400 <= code < 500 else Meaning.UNKNOWN
