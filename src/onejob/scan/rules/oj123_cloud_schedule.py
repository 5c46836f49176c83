"""OJ123 cloud-schedule

What
    A schedule of a cloud or a hosting platform: EventBridge, Cloud Scheduler, Azure timers,
    Vercel, Netlify, Cloudflare, Render and App Engine crons, whatever declares it.

Why it matters
    They promise at least once. The same fire time can be delivered twice, or again after a
    timeout, and the function or the URL behind it runs twice.

Example
    ::

        schedule_expression = "rate(5 minutes)"

Instead
    Let the receiver refuse what it has seen. In Python: ``app.first(schedule, event_id,
    within=connection)`` of onejob in the transaction of its work, or make a run of it:
    ``job.using(key=event_id).enqueue()``. A command: ``onejob once NAME --key ID -- CMD``.

    Without onejob: a unique key of (schedule, fire time) in the transaction of its work.

When to ignore
    Running twice for one fire time changes nothing.
"""

CODE = "OJ123"
NAME = "cloud-schedule"
KINDS = (
    "eventbridge",
    "cloud-scheduler",
    "azure-timer",
    "vercel-cron",
    "platform-cron",
    "railway-cron",
    "firebase-schedule",
)
ADVICE = (
    "Let the receiver refuse what it has seen: app.first(schedule, event_id, "
    "within=connection) of onejob in the transaction of its work. Without onejob: a unique "
    "key of (schedule, fire time) there."
)
