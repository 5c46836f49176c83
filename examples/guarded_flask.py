"""Flask-APScheduler in each of gunicorn's workers, and yet one digest a tick.

    export DATABASE_URL=postgresql://localhost/shop
    onejob --url "$DATABASE_URL" init
    gunicorn --workers 3 examples.guarded_flask:web

Each worker imports this module and starts a scheduler of its own: without the one line it would be
three digests. ``max_instances`` and ``coalesce`` count in one process, and would not help.
"""

from __future__ import annotations

import os

from flask import Flask
from flask_apscheduler import APScheduler

from onejob import App

app = App(os.environ["DATABASE_URL"], lease=os.environ.get("EXAMPLE_LEASE", "12s"))
web = Flask("shop")
scheduler = APScheduler()

# So that you, and the tests, need not wait for the night.
when = {"second": "*"} if "EXAMPLE_EVERY" in os.environ else {"hour": 2}


@scheduler.task("cron", id="digest", **when)
def digest() -> None:
    print(f"digest by worker {os.getpid()}", flush=True)


scheduler.init_app(web)
app.guard(scheduler)
scheduler.start()


@web.get("/")
def counts() -> str:
    return str(app.guard(scheduler))
