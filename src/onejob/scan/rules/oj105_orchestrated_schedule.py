"""OJ105 orchestrated-schedule

What
    A schedule of an orchestrator: an Airflow DAG, a Prefect or Dagster schedule.

Why it matters
    The orchestrator makes one run for each interval, and then retries, backfills and clears it: the
    same interval can run again, and two intervals at once. ``max_active_runs=1`` orders them; it
    does not keep an interval from running twice.

Example
    ::

        with DAG("bill", schedule="0 4 * * *", max_active_runs=1): ...

Instead
    Let each task write under a key made of the interval (``data_interval_start``):
    ``app.first(scope, key, within=connection)`` of onejob in its transaction,
    ``app.effect(scope, key, call)`` around a call to somebody else.

    Without onejob: a unique constraint over that key, so that a second run finds its work done.

When to ignore
    Every task replaces what an earlier run of the same interval wrote.
"""

CODE = "OJ105"
NAME = "orchestrated-schedule"
KINDS = ("airflow", "prefect", "dagster")
ADVICE = (
    "Key the work by the interval: app.first(scope, key, within=connection) of onejob in its "
    "transaction. Without onejob: write under a unique key made of the interval, so that a "
    "repeated run finds its work done."
)
