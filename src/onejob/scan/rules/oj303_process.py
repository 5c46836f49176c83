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
    ``strategy: {type: Recreate}`` for the process that fires, and a store that decides each fire
    time.

When to ignore
    Nothing that the process starts fires by itself.
"""

CODE = "OJ303"
NAME = "process"
KINDS = ("process",)
ADVICE = "Start what fires with strategy Recreate, and let a shared store decide each fire time."
