"""OJ507 lock-shorter-than-job

What
    A lock whose time to live is shorter than the time limit of the task that holds it.

Why it matters
    The lock lapses in the middle of the work, the next fire time takes it, and both work.

Example
    ::

        @app.task(time_limit=600)
        def sync():
            with r.lock("sync", timeout=60): ...

Instead
    A lock that is renewed while it is held (``app.lock`` of onejob), or a time limit below the
    lock's.

When to ignore
    Two at once do no harm.
"""

CODE = "OJ507"
NAME = "lock-shorter-than-job"
KINDS = ("lock-shorter-than-job",)
ADVICE = (
    "Renew the lock while it is held (app.lock of onejob), or set the time limit below the "
    "lock's time to live."
)
