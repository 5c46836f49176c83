"""OJ103 timer-loop

What
    A loop or a timer of the program's own: ``while True`` with a sleep or a wait, a
    ``threading.Timer`` or ``setTimeout`` that arms itself again, ``setInterval`` on a server, an
    asyncio task started with the application.

Why it matters
    The clock starts with the process. Each replica runs the loop from its own start, so three
    replicas do the work three times, at three different instants.

Example
    ::

        while not stop.wait(60):
            send_reminders()

Instead
    In Python, call a function under ``@app.once_per("5m")`` of onejob in each turn, or make it
    a schedule: ``@app.every("5m")`` instead of the loop. Where only two at once do harm, hold
    ``app.lock("name")`` around the turn. In another language: a program, called as ``onejob
    once NAME --per 5m -- CMD``.

    Without onejob: take the work from a shared store in each turn: claim rows with ``FOR UPDATE
    SKIP LOCKED``, or by an ``UPDATE`` whose ``WHERE`` names their old state.

When to ignore
    The loop serves its own process: a heartbeat, a cache, a watchdog, metrics.
"""

CODE = "OJ103"
NAME = "timer-loop"
KINDS = (
    "loop",
    "timer",
    "asyncio-loop",
    "set-interval",
    "set-timeout",
    "java-timer",
    "go-ticker",
    "dotnet-timer",
)
ADVICE = (
    'Put @app.once_per("5m") of onejob over what a turn calls (another language: onejob once '
    'NAME --per 5m -- CMD), or app.lock("name") around the turn where only overlap does harm. '
    "Without onejob: claim the rows of each turn with FOR UPDATE SKIP LOCKED."
)
