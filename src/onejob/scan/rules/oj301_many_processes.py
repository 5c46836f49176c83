"""OJ301 many-processes

What
    A command, manifest or program that starts several processes of an application that fires jobs
    by itself: gunicorn or uvicorn workers, PM2 instances, a scheduler started from the web app.

Why it matters
    Each process has its own scheduler and its own loops. Four workers in three replicas run every
    job twelve times.

Example
    ::

        gunicorn --workers 4 shop.wsgi:app

Instead
    Let a shared store decide for each fire time: ``app.guard(scheduler)`` of onejob beside the
    scheduler, or ``@app.once_per("day")`` over what fires. It survives the second process of a
    rollout too.

    Without onejob: start what fires in one process of its own (``replicas: 1``, ``strategy:
    Recreate``), with a row of a unique key of (job, fire time) that it inserts first.

When to ignore
    Nothing that the process starts fires by itself.
"""

CODE = "OJ301"
NAME = "many-processes"
KINDS = ("web-workers", "scheduler-in-web", "process-manager")
ADVICE = (
    "Let a shared store decide each fire time of what is inside: app.guard(scheduler) or "
    '@app.once_per("day") of onejob. Without onejob: start what fires in one process of its '
    "own, and insert a row with a unique key of (job, fire time) first."
)
