"""A scheduler outside: it calls an address at a time, now and then twice, and one run comes of it.

    onejob init
    TASKS_TOKEN=... uvicorn --workers 2 examples.scheduler_outside:web

Cloud schedulers deliver "at least once": after a timeout, a lost answer or a redeploy they call
again, and any worker may be the one that hears it. So the address does no work. It makes a run,
keyed by the time for which the call was meant, and answers; a key that is known makes no second.

The time is the scheduler's own, never the moment of arrival: Google's Cloud Scheduler sends it in
the header X-CloudScheduler-ScheduleTime, and others let you write a header of your own
(EventBridge Scheduler: ``<aws.scheduler.scheduled-time>``).
"""

from __future__ import annotations

import hmac
import os
from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException, Response

from onejob import App, Run

app = App(name="shop", lease=os.environ.get("EXAMPLE_LEASE", "12s"))
web = FastAPI(lifespan=app.lifespan)


@app.job()
def digest(run: Run, meant_for: datetime) -> str:
    print(f"the digest of {meant_for:%Y-%m-%d}, run {run.id}")
    return "sent"


@web.post("/tasks/digest", status_code=202)
async def digest_is_due(
    response: Response,
    x_cloudscheduler_scheduletime: Annotated[str, Header()],
    authorization: Annotated[str, Header()] = "",
) -> dict[str, object]:
    """Make the run of one scheduled time. 202: made now; 200: known, by an earlier delivery."""
    known = f"Bearer {os.environ['TASKS_TOKEN']}"
    if not hmac.compare_digest(authorization.encode(), known.encode()):
        raise HTTPException(401, "a token is needed")
    meant_for = scheduled_time(x_cloudscheduler_scheduletime)
    asked = await digest.using(key=f"digest@{meant_for.isoformat()}").aenqueue(meant_for=meant_for)
    if not asked.created:
        response.status_code = 200
    return {"run": asked.run_id, "new": asked.created}


def scheduled_time(text: str) -> datetime:
    """Read the time, so that two ways to write it are one key."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise HTTPException(400, "X-CloudScheduler-ScheduleTime is no time") from None
    if time.tzinfo is None:
        raise HTTPException(400, "X-CloudScheduler-ScheduleTime names no zone")
    return time.astimezone(UTC)
