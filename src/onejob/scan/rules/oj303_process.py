"""OJ303 process

What
    A process that a manifest or a process file keeps running: its replicas multiply what fires
    inside.

Why it matters
    ``replicas: 1`` still means two while a rollout goes on, and three when somebody scales.

Example
    ::

        kind: Deployment
        spec:
          replicas: 1

Instead
    Let a store decide each fire time of what it fires: ``app.guard(scheduler)`` or
    ``@app.once_per("day")`` of onejob.

    Without onejob: ``strategy: {type: Recreate}`` for the process that fires, and a row with a
    unique key of (job, fire time) that it inserts first.

When to ignore
    Nothing that the process starts fires by itself.
"""

CODE = "OJ303"
NAME = "process"
KINDS = ("process",)
ADVICE = (
    'Let a store decide each fire time: app.guard(scheduler) or @app.once_per("day") of '
    "onejob. Without onejob: strategy Recreate, and a row with a unique key of (job, fire "
    "time) first."
)
