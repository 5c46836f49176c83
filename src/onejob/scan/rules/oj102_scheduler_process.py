"""OJ102 scheduler-process

What
    A schedule that a library's scheduler process turns into tasks: Celery beat and its database
    schedulers, django-q, rq-scheduler, RQ's cron, huey, taskiq, dramatiq-crontab and periodiq,
    django-cron, clockwork, asynq, the scheduler of Laravel.

Why it matters
    The schedule is right only while exactly one such process runs in the whole fleet. A worker
    started with ``-B``, a second replica of the beat container, or the old one during a rollout
    doubles every task, and a single one that has died fires none.

Example
    ::

        app.conf.beat_schedule = {"bill": {"task": "shop.bill", "schedule": crontab(hour=2)}}

Instead
    ``app.guard(...)`` of onejob in the module that the scheduler process loads makes each tick
    one message, however many such processes run: for Celery's app, Huey, RQ's cron, a
    TaskiqScheduler. For the others, let the task refuse a period that was taken:
    ``@app.once_per("day")`` over the task, ``onejob once NAME --per day -- CMD`` before a
    program.

    Without onejob: keep one scheduler process (``replicas: 1`` with ``strategy: Recreate``),
    and let the task begin by inserting a row with a unique key of (task, period) in the
    transaction that does the work.

When to ignore
    Running the task twice for one fire time changes nothing.
"""

CODE = "OJ102"
NAME = "scheduler-process"
KINDS = (
    "celery-beat",
    "celery-periodic",
    "django-celery-beat",
    "django-q",
    "django-crontab",
    "django-cron",
    "rq-scheduler",
    "rq-cron",
    "huey",
    "taskiq",
    "dramatiq-crontab",
    "agenda",
    "clockwork",
    "crono",
    "asynq",
    "laravel-schedule",
    "symfony-scheduler",
    "wp-cron",
)
ADVICE = (
    'Let the task refuse a period that was taken: @app.once_per("day") of onejob over it, '
    "onejob once NAME --per day -- CMD before a program. Without onejob: a unique key of "
    "(task, period) in its transaction, and one scheduler: replicas 1, strategy Recreate."
)
_CELERY_BEAT = (
    "Add app.guard(celery_app) of onejob in the module that beat loads: each tick is one "
    "message, however many beats run. Without onejob: a unique key of (task, period) in its "
    "transaction, and one beat: replicas 1, strategy Recreate."
)
#: Where a library has a smaller change of its own.
ADVICE_KINDS = {
    "celery-beat": _CELERY_BEAT,
    "celery-periodic": _CELERY_BEAT,
    "django-celery-beat": _CELERY_BEAT,
    "huey": (
        "Add app.guard(huey) of onejob where the tasks are defined: each tick is one task, "
        "however many consumers run. Without onejob: a unique key of (task, period) in its "
        "transaction, and one consumer with periodic tasks."
    ),
    "rq-cron": (
        "Add app.guard(rq.cron) of onejob to the file that rq cron reads: each tick is one job. "
        "Without onejob: a unique key of (job, period) in its transaction, and one such process: "
        "replicas 1, strategy Recreate."
    ),
    "taskiq": (
        "Add app.guard(scheduler) of onejob beside the TaskiqScheduler: each tick is one task. "
        "Without onejob: a unique key of (task, period) in its transaction, and one scheduler: "
        "replicas 1, strategy Recreate."
    ),
}
