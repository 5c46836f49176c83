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
    Start what fires in one process of its own, or let a shared store decide for each fire time
    (``@app.guard`` of onejob), which also survives the second process of a rollout.

When to ignore
    Nothing that the process starts fires by itself.
"""

CODE = "OJ301"
NAME = "many-processes"
KINDS = ("web-workers", "scheduler-in-web", "process-manager")
ADVICE = (
    "Start what fires in one process of its own, and let a shared store decide each fire time: "
    "@app.guard of onejob."
)
