"""OJ106 hosted-schedule

What
    A schedule in code that a platform fires: Firebase ``onSchedule``, Inngest, Trigger.dev,
    ``Deno.cron``.

Why it matters
    Such platforms promise that it runs at least once for each fire time, and retry what failed or
    was slow to answer. Two runs for one fire time are within the promise.

Example
    ::

        export const nightly = onSchedule("0 3 * * *", bill);

Instead
    Make a key of (job, fire time) and write it under a unique constraint in the transaction of the
    work; where the platform gives an event id, use that.

When to ignore
    Doing the work twice changes nothing.
"""

CODE = "OJ106"
NAME = "hosted-schedule"
KINDS = ("hosted-schedule",)
ADVICE = (
    "Write a unique key of (job, fire time), or the platform's event id, in the transaction of the "
    "work, so that a second delivery finds it done."
)
