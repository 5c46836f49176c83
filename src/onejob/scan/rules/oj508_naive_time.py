"""OJ508 naive-time

What
    A loop that asks ``datetime.now()`` whether it is time.

Why it matters
    A turn that comes a minute late misses its hour; a quick one does the work twice. When the
    clocks go back the hour comes twice, when they go forward not at all.

Example
    ::

        while True:
            if datetime.now().hour == 3:
                report()
            time.sleep(60)

Instead
    A schedule that knows its next fire time and its zone: ``@app.cron("0 3 * * *",
    tz="Europe/Berlin")`` of onejob, or any cron library that reckons in UTC.

When to ignore
    The condition only spares work.
"""

CODE = "OJ508"
NAME = "naive-time"
KINDS = ("naive-time",)
ADVICE = (
    'Let a schedule with a time zone name the fire times: @app.cron("0 3 * * *", '
    'tz="Europe/Berlin") of onejob, or a cron library.'
)
