"""OJ531 short-deadline

What
    A CronJob with ``startingDeadlineSeconds`` below ten.

Why it matters
    The controller looks every ten seconds. A fire time that is older than the deadline when it
    looks counts as missed, so the job may never run.

Example
    ::

        startingDeadlineSeconds: 5

Instead
    Half a minute or more; a job that must not run late can see for itself how late it is.

When to ignore
    Never.
"""

CODE = "OJ531"
NAME = "short-deadline"
KINDS = ("short-cronjob-deadline",)
ADVICE = "Set startingDeadlineSeconds to 30 or more, or leave it out."
