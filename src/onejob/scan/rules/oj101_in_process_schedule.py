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
    Let a shared store decide who runs each fire time: ``@app.guard`` of onejob over the function
    keeps the scheduler that you have, ``@app.schedule`` replaces it. Without onejob: first insert
    a row with a unique key of (job, fire time) and run only if the insert was yours.

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
    "Put @app.guard of onejob over the job's function, or insert a row with a unique key of "
    "(job, fire time) first and go on only if the insert was yours."
)
