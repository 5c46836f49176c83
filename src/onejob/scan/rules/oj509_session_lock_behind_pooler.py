"""OJ509 session-lock-behind-pooler

What
    A session's advisory lock (``pg_advisory_lock``, ``pg_try_advisory_lock``) in a repository that
    reaches PostgreSQL through a transaction pooler.

Why it matters
    The pooler lends a session for one transaction. The lock stays with the session, which serves
    somebody else next: two processes believe they hold it, or nobody can free it.

Example
    ::

        url = "postgresql://app@db:6432/shop"    # the pooler
        cursor.execute("SELECT pg_try_advisory_lock(42)")

Instead
    A lock of the transaction (``pg_try_advisory_xact_lock``) around the work, a lock row, or
    ``app.lock`` of onejob, which keeps its lease in a table. Or a direct connection for the lock.

When to ignore
    The lock is taken over a connection of its own that does not go through the pooler.
"""

CODE = "OJ509"
NAME = "session-lock-behind-pooler"
KINDS = ("session-lock-behind-pooler",)
ADVICE = (
    "Use pg_try_advisory_xact_lock around the work, a direct connection for the lock, or app.lock "
    "of onejob, which keeps its lease in a table."
)
