"""OJ302 scheduler-launch

What
    A command that starts a library's scheduler: ``celery beat``, a worker with ``-B`` or
    ``--beat``, ``rq worker --with-scheduler``, ``rqscheduler``, ``taskiq scheduler``, ``qcluster``,
    a clock process. And ``onejob worker`` and ``onejob once``, so that the list is whole.

Why it matters
    There must be one in the fleet. Embedded in a worker it is started once for each worker.

Example
    ::

        celery -A shop worker --beat

Instead
    ``app.guard(...)`` of onejob in the module that the scheduler loads (Celery, Huey, RQ's
    cron, Taskiq): then any number of them may run. Any other: ``onejob once clock -- CMD``
    keeps it to one at a time in the fleet.

    Without onejob: a process of its own: ``replicas: 1`` with ``strategy: Recreate``; and tasks
    that refuse a period that was taken, because one process cannot be promised.

When to ignore
    It says SINGLE, and nobody scales it.
"""

CODE = "OJ302"
NAME = "scheduler-launch"
KINDS = ("embedded-scheduler", "scheduler-command", "onejob-worker", "onejob-once")
ADVICE = (
    "Hand the scheduler to app.guard(...) of onejob, or start it as onejob once clock -- CMD: "
    "one at a time in the fleet. Without onejob: start it in one process of its own (replicas "
    "1, strategy Recreate), and let the tasks refuse a period that was taken."
)
