"""OJ104 keyed-schedule

What
    A library that keeps one key for each fire time in a shared store: onejob's ``@app.cron``,
    ``@app.every`` and ``app.schedules``; arq cron jobs with
    ``unique=True``, procrastinate's periodic tasks, APScheduler 4 with a shared data store,
    repeatable jobs and job schedulers of Bull and BullMQ, sidekiq-cron, good_job, solid_queue,
    JobRunr, db-scheduler, River, Hangfire.

Why it matters
    These run once for each fire time, until the key is switched off (``unique=False``), the data
    store is the process's own memory, or a failover of Redis forgets the key.

Example
    ::

        cron_jobs = [cron(bill, hour={3}, unique=False)]

Instead
    Leave the key on, keep the store shared, and make what must never happen twice carry a key
    of its own: ``app.first(scope, key, within=connection)`` of onejob in the transaction of the
    work.

    Without onejob: a unique key of (job, period) in that transaction.

When to ignore
    It says GUARDED.
"""

from onejob.scan.finding import Verdict

CODE = "OJ104"
NAME = "keyed-schedule"
KINDS = (
    "onejob",
    "arq",
    "procrastinate",
    "apscheduler-4",
    "bull-repeat",
    "bullmq-scheduler",
    "sidekiq-cron",
    "sidekiq-scheduler",
    "resque-scheduler",
    "good-job",
    "solid-queue",
    "que-scheduler",
    "delayed-periodic",
    "delayed-cron",
    "mini-scheduler",
    "jobrunr",
    "db-scheduler",
    "river",
    "hangfire",
)
ADVICE = (
    "Leave the library's key for each fire time switched on, and its store shared. What must "
    "never happen twice: app.first(scope, key, within=connection) of onejob. Without onejob: "
    "a unique key of (job, period) in the transaction."
)
ADVICE_FOR = {
    Verdict.WEAK_GUARD: (
        "Good for what may rarely run twice. What must not, needs a unique key in the database: "
        "app.first of onejob, or a row of (job, period) in the transaction."
    )
}
