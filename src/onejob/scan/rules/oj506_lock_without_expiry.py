"""OJ506 lock-without-expiry

What
    ``SETNX``, or ``SET ... NX`` without an expiry, or with one that a second request adds.

Why it matters
    A holder that dies leaves the lock behind for good; one that dies between the two requests
    as well. The job then never runs again, without an error.

Example
    ::

        if r.setnx("lock", 1):
            r.expire("lock", 60)

Instead
    One request: ``SET key token NX EX 60``; or ``app.lock`` of onejob, which is renewed while
    it is held.

When to ignore
    Somebody watches for locks that stay.
"""

CODE = "OJ506"
NAME = "lock-without-expiry"
KINDS = ("lock-without-expiry",)
ADVICE = (
    "Take it in one request: SET key token NX EX seconds; or app.lock of onejob, which is "
    "renewed while held."
)
