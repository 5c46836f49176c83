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
    Take the work from a shared store in each turn: claim rows with ``FOR UPDATE SKIP LOCKED``, or
    hold ``app.lock(...)`` of onejob around the turn, or make it a schedule (``@app.schedule``).

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
    "Claim the work of each turn in a shared store: rows with FOR UPDATE SKIP LOCKED, app.lock of "
    "onejob around the turn, or @app.schedule instead of the loop."
)
