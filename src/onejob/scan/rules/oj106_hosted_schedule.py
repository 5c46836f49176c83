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
    Make a key of (job, fire time), or take the platform's event id. In Python
    ``app.first(scope, key, within=connection)`` of onejob asks for it in the transaction of the
    work.

    Without onejob, and in any other language: write the key under a unique constraint in that
    transaction.

When to ignore
    Doing the work twice changes nothing.
"""

CODE = "OJ106"
NAME = "hosted-schedule"
KINDS = ("hosted-schedule",)
ADVICE = (
    "Key the work by (job, fire time), or the platform's event id: app.first(scope, key, "
    "within=connection) of onejob in its transaction. Without onejob: write the key under a "
    "unique constraint there, so that a second delivery finds it done."
)
