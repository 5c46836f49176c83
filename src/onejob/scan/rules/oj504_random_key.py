"""OJ504 random-key

What
    An idempotency key that is drawn by chance when the request is made.

Why it matters
    The provider tells a repetition by its key. A key drawn anew for each attempt makes every
    retry a new payment.

Example
    ::

        client.charge(amount, idempotency_key=str(uuid4()))

Instead
    Make the key of what is meant: ``f"invoice-{invoice.id}"``, or draw it once and store it
    before the first request; ``app.effect("invoice", invoice.id, charge,
    pass_key_as="idempotency_key")`` of onejob does that.

When to ignore
    The key is stored before the request and used again by its retries.
"""

CODE = "OJ504"
NAME = "random-key"
KINDS = ("random-key",)
ADVICE = (
    "Make the key of what is meant (the invoice, the period), or store it before the first "
    "request: app.effect(scope, key, call, pass_key_as=NAME) of onejob does."
)
