"""Idempotent HTTP endpoints: a request that is sent again is answered, and not carried out again.

A client names its request in the header ``Idempotency-Key`` and sends the same one as often as it
takes. One of them claims the key in the store and is carried out, and its answer is kept under the
claim's token, complete, before the first byte of it is sent. In the order of the answers:

* 400 where the key is missing, or is none; 403 where it is not known who asks; 413 where the body
  is too large to be compared (411 where its end cannot be told). Before any I/O;
* 422 where the key came before with another request: method, path, query or content;
* 409 ``in_progress`` while the first is at work, ``outcome_unknown`` where it ended unclearly or
  its process died, ``response_not_kept`` where it was carried out and its answer was too large;
* the first one's answer again, with ``Idempotent-Replayed: true``, without its cookies;
* 503 where the store does not answer: a request that cannot be checked is not carried out.

The keys of one caller are not those of another. ``caller`` says who asks.
"""

from onejob.core.idempotency import HEADER
from onejob.integrations.idempotency.asgi import ASGIIdempotency
from onejob.integrations.idempotency.request import Claim, Request, by_authorization, claim_of
from onejob.integrations.idempotency.wsgi import WSGIIdempotency

__all__ = [
    "HEADER",
    "ASGIIdempotency",
    "Claim",
    "Request",
    "WSGIIdempotency",
    "by_authorization",
    "claim_of",
]
