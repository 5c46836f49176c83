"""OJ121 cluster-schedule

What
    A CronJob of Kubernetes, an Argo CronWorkflow, a scheduled job of Nomad, and commands that
    start a CronJob's job outside its schedule.

Why it matters
    The controller promises "about once": a job can be created twice for one fire time, or not at
    all. ``Allow`` lets runs overlap; ``Forbid`` keeps them apart and drops a fire time while a
    run is under way; neither makes a fire time run once. ``kubectl create job --from`` passes
    both by.

Example
    ::

        kind: CronJob
        spec:
          schedule: "0 1 * * *"
          concurrencyPolicy: Allow

Instead
    ``concurrencyPolicy: Forbid``, a ``startingDeadlineSeconds`` above 10, and a job that
    refuses a period that was taken: ``onejob once NAME --per day -- CMD``, or ``--key
    $(JOB_NAME)`` with the name of the Job, which ends with the scheduled time.

    Without onejob: a unique key of (job, period) in the job's transaction.

When to ignore
    Running twice changes nothing.
"""

CODE = "OJ121"
NAME = "cluster-schedule"
KINDS = ("k8s-cronjob", "k8s-cron-resource", "job-from-cronjob", "nomad-periodic")
ADVICE = (
    "Set concurrencyPolicy: Forbid, and let the job refuse a period that was taken: onejob "
    "once NAME --per day -- CMD. Without onejob: a unique key of (job, period) in its "
    "transaction."
)
