"""The application whose replicas are killed, frozen and cut off: what its handlers do is on file.

Each line of the file ``marks`` is one thing that a handler did: what, key, attempt, pid. It is
written with one call, so lines of several processes never mix, and a killed process leaves no half
of one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from pathlib import Path

from onejob import App, AsyncRun, LeaseLost, Retry, Run

HERE = Path(os.environ["SHOP_DIRECTORY"])

app = App(
    os.environ["SHOP_URL"],
    schema=os.environ["SHOP_SCHEMA"],
    name="shop",
    lease=os.environ["SHOP_LEASE"],
    poll=os.environ["SHOP_POLL"],
    grace=os.environ["SHOP_GRACE"],
    concurrency=int(os.environ["SHOP_CONCURRENCY"]),
)


def mark(what: str, run: Run | AsyncRun) -> None:
    line = f"{what} {run.key} {run.attempt} {os.getpid()}\n"
    descriptor = os.open(HERE / "marks", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def wait_for(name: str) -> None:
    while not (HERE / name).exists():
        time.sleep(0.02)


@app.job()
async def quick(run: AsyncRun) -> None:
    mark("begun", run)
    mark("done", run)


@app.job()
async def short(run: AsyncRun) -> None:
    mark("begun", run)
    await asyncio.sleep(0.3)
    mark("done", run)


@app.job()
async def three_seconds(run: AsyncRun) -> None:
    mark("begun", run)
    await asyncio.sleep(3)
    mark("done", run)


@app.job(retry=Retry(attempts=2))
async def a_minute(run: AsyncRun) -> None:
    mark("begun", run)
    await asyncio.sleep(60)
    mark("done", run)


@app.job()
async def a_minute_unless_cancelled(run: AsyncRun) -> None:
    mark("begun", run)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        mark("cancelled", run)
        raise


@app.job()
async def tells_how_far(run: AsyncRun) -> None:
    """A command to the store is nearly always under way."""
    mark("begun", run)
    for step in range(6_000):
        await run.progress(step, 6_000)
        await asyncio.sleep(0.01)


@app.job()
def a_minute_in_a_thread(run: Run) -> None:
    mark("begun", run)
    time.sleep(60)
    mark("done", run)


@app.job()
async def blocks_the_loop(run: AsyncRun, seconds: float) -> None:
    mark("begun", run)
    time.sleep(seconds)  # noqa: ASYNC251 - what this job is for
    mark("done", run)


@app.job()
async def kills_its_process(run: AsyncRun) -> None:
    mark("begun", run)
    os.kill(os.getpid(), signal.SIGKILL)


@app.job()
def works_slowly(run: Run) -> None:
    """Two seconds in which nothing is asked of the store but an effect and a word of progress."""
    mark("begun", run)
    run.effect("mail", time.sleep, 1)
    run.progress(1, 2)
    time.sleep(1)
    mark("done", run)


@app.job()
def waits_then_mails(run: Run) -> None:
    """Wait for the file ``go``, then send: what a thawed process goes on with."""
    mark("begun", run)
    wait_for("go")
    try:
        run.effect("mail", mark, "mailed", run)
    except LeaseLost:
        mark("refused", run)
        raise
    mark("done", run)


@app.job()
def waits_and_checks_nothing(run: Run) -> None:
    mark("begun", run)
    wait_for("go")
    mark("done", run)


@app.job()
def waits_then_writes(run: Run) -> None:
    """Wait for ``go``, then write a row in the application's own table, fenced."""
    mark("begun", run)
    wait_for("go")
    try:
        with run.transaction() as connection:
            place = "?" if isinstance(connection, sqlite3.Connection) else "%s"
            connection.execute(f"INSERT INTO sold (who) VALUES ({place})", (str(os.getpid()),))
    except LeaseLost:
        mark("refused", run)
        raise
    mark("done", run)
