"""OJ505 release-without-token

What
    A lock in Redis that is freed by deleting its key, whoever holds it.

Why it matters
    When the job took longer than the lock, somebody else holds it by now, and their lock is
    what is deleted. Then two more may start.

Example
    ::

        if r.set("lock", 1, nx=True, ex=60):
            work()
            r.delete("lock")

Instead
    Delete only where the value is still ours: a token as the value, compared and deleted in one
    Lua script; ``app.lock`` of onejob does it and gives a fencing token.

When to ignore
    The job can never take longer than the lock.
"""

CODE = "OJ505"
NAME = "release-without-token"
KINDS = ("release-without-token",)
ADVICE = (
    "Store a token as the value and compare-and-delete in one script, or use app.lock of onejob."
)
