"""A job of an App as a program that ends: what ``onejob prove MODULE:APP JOB`` starts.

``python -m onejob.cli.prove_job MODULE:APP JOB ARGS`` asks for one run under one key, so that
copies and restarts mean the same run, and is a replica until that run has ended. Its lease is the
shortest there is: what a killed copy held goes on in a second or two.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from onejob.cli.failure import UNKNOWN, mapped
from onejob.cli.invocation import Invocation
from onejob.core.lease import LEAST_LEASE
from onejob.core.time import SECOND

if TYPE_CHECKING:
    from onejob.app import App

#: In the folder of the play, so that each begins with an empty one.
STORE = "sqlite:///onejob-prove.db"

KEY = "prove"
_LOOK_SECONDS = 0.02


def main(spec: str, job: str, arguments: str) -> int:
    """Return 0 where the run succeeded, 4 where an effect of it is unknown, else 1."""
    app = Invocation(url=STORE).named(spec, fires=True)
    store: Any = app.store
    store.init()
    state, outcome = asyncio.run(_ended(app, job, json.loads(arguments)))
    sys.stderr.write(f"run of {job}: {outcome or state}\n")
    return UNKNOWN if state == "unknown" else int(outcome != "succeeded")


async def _ended(app: App, job: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    asked = await app.jobs[job].using(key=KEY).aenqueue(**arguments)
    serving = app.serving(lease=LEAST_LEASE / SECOND, schedule=False)
    replica = asyncio.create_task(serving.serve())
    while True:
        run = await asyncio.to_thread(app.runs.get, asked.run_id)
        if run is not None and run.state in ("ended", "unknown"):
            break
        await asyncio.wait([replica], timeout=_LOOK_SECONDS)
    serving.stop()
    await replica
    return run.state, run.outcome or ""


def _run() -> int:
    try:
        with mapped():
            return main(*sys.argv[1:])
    except click.ClickException as failure:
        failure.show()
        return failure.exit_code


if __name__ == "__main__":
    sys.exit(_run())
