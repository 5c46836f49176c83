"""OJ530 shell-as-pid-1

What
    A container whose first process is a shell that starts a worker or a server without ``exec``.

Why it matters
    The shell does not pass SIGTERM on. The worker never hears that it should stop, goes on
    claiming work, and is killed in the middle of a job when the grace period ends.

Example
    ::

        CMD celery -A shop worker

Instead
    The list form, ``CMD ["celery", "-A", "shop", "worker"]``, or ``exec`` before the last command.

When to ignore
    Being killed in the middle loses nothing and repeats nothing.
"""

CODE = "OJ530"
NAME = "shell-as-pid-1"
KINDS = ("shell-as-pid-1",)
ADVICE = 'Write the list form, CMD ["program", "argument"], or put exec before the last command.'
