"""OJ101 in-process-schedule

What
    A scheduler library inside the application fires a job: APScheduler, Flask-APScheduler,
    schedule, rocketry, fastapi-utils; node-cron, cron, croner, node-schedule, NestJS; Spring,
    Quartz; rufus-scheduler; robfig/cron, gocron.

Why it matters
    The library lives in one process and knows of no other. Every replica, every worker of the web
    server and both sides of a rollout have a scheduler of their own: three replicas with four
    workers send twelve reports. A shared job store, ``max_instances=1`` or ``coalesce`` does not
    change that.

Example
    ::

        scheduler = BackgroundScheduler()
        scheduler.add_job(send_digest, "cron", hour=6)

Instead
    Let a shared store decide who runs each fire time. ``app.guard(scheduler)`` of onejob keeps
    the scheduler that you have, where it is APScheduler 3, Flask-APScheduler or schedule;
    ``@app.once_per("day")`` over the function does it for any scheduler in Python;
    ``@app.cron("0 6 * * *")`` replaces the scheduler. In another language: take the work out
    into a program, and let every machine's cron call ``onejob once NAME --per day -- CMD``.

    Without onejob: first insert a row with a unique key of (job, fire time), and run only if
    the insert was yours.

When to ignore
    The job is about the process itself: it refreshes a cache in memory, reports metrics.
"""

CODE = "OJ101"
NAME = "in-process-schedule"
KINDS = (
    "apscheduler",
    "flask-apscheduler",
    "schedule",
    "rocketry",
    "repeat-every",
    "node-cron",
    "cron-job",
    "croner",
    "node-schedule",
    "nestjs-schedule",
    "toad-scheduler",
    "own-decorator",
    "own-cron",
    "spring-scheduled",
    "micronaut-scheduled",
    "quarkus-scheduled",
    "ejb-timer",
    "quartz",
    "robfig-cron",
    "gocron",
    "go-quartz",
    "rufus",
    "quartz-net",
    "coravel",
)
ADVICE = (
    'Put @app.once_per("day") of onejob over the function, or call the work as a program: '
    "onejob once NAME --per day -- CMD. Without onejob: first insert a row with a unique key "
    "of (job, fire time), and go on only if the insert was yours."
)
_APSCHEDULER = (
    "Add app.guard(scheduler) of onejob before the scheduler starts: one line, and each tick "
    "fires once. Without onejob: first insert a row with a unique key of (job, fire time), "
    "and go on only if the insert was yours."
)
#: Where a library has a smaller change of its own.
ADVICE_KINDS = {
    "apscheduler": _APSCHEDULER,
    "flask-apscheduler": _APSCHEDULER,
    "schedule": (
        "Add app.guard(schedule) of onejob where the jobs are registered: one line, and each tick "
        "fires once. Without onejob: first insert a row with a unique key of (job, fire time), "
        "and go on only if the insert was yours."
    ),
}
