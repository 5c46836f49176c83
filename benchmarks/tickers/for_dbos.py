"""DBOS: each process schedules and works."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,untyped-decorator"

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from dbos import DBOS

from benchmarks.tickers.mark import NUMBER, ROLE, URL, fire

DBOS(
    config={
        "name": "ticks",
        "system_database_url": URL,
        "application_version": "1",
        "log_level": "ERROR",
        "executor_id": f"executor-{NUMBER}",
    }
)


@DBOS.workflow(name="tick")
def tick(at: datetime, context: Any) -> None:
    fire(at.timestamp())


if __name__ == "__main__":
    DBOS.launch()
    if ROLE == "setup":
        DBOS.destroy()
    else:
        DBOS.apply_schedules(
            [{"schedule_name": "tick", "workflow_fn": tick, "schedule": "* * * * * *"}]
        )
        while True:
            time.sleep(3600)
