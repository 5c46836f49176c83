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
    Keep one scheduler process (``replicas: 1`` with ``strategy: Recreate``) and make the task
    refuse a fire time that was taken: ``@app.once_per("day")`` of onejob, or a unique key of
    (task, period) in the transaction that does the work.

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
    "Make the task refuse a period that was taken: @app.once_per of onejob, or a unique key of "
    "(task, period) in its transaction. And run one scheduler: replicas 1, strategy Recreate."
)
