"""OJ402 redelivery

What
    A task that its broker hands out again: Celery with ``acks_late`` (or ``task_acks_late``),
    where the message is acknowledged only after the work.

Why it matters
    A worker that dies in the middle has its task run again, which is what the setting is for.
    On Redis and SQS so does one that takes longer than the visibility timeout: the task runs
    twice at once.

Example
    ::

        @app.task(acks_late=True, time_limit=7200)   # and a visibility timeout of one hour
        def bill(): ...

Instead
    Set the visibility timeout above the longest run, limit the run (``time_limit``), and let
    the task find its own work done: ``app.first(scope, key, within=connection)`` of onejob in
    its transaction, ``app.effect(scope, key, call)`` around a call to somebody else.

    Without onejob: a unique key in its transaction.

When to ignore
    Running the task twice changes nothing.
"""

CODE = "OJ402"
NAME = "redelivery"
KINDS = ("acks-late",)
ADVICE = (
    "Set the visibility timeout above the task's time limit, and let the task find its own "
    "work done: app.first(scope, key, within=connection) of onejob. Without onejob: a unique "
    "key in its transaction."
)
