"""OJ120 host-schedule

What
    A schedule of the machine: a crontab, a file in ``cron.d`` or ``cron.daily``, lines that a
    script pipes to ``crontab``, whenever's ``schedule.rb``, a systemd timer, a cron of uWSGI,
    Ansible's cron module.

Why it matters
    Every host, and every container, that has the file runs it. The second machine behind the load
    balancer sends the second report. ``flock`` and pid files end at the host.

Example
    ::

        */5 * * * * /srv/shop/manage.py send_mail

Instead
    Let a shared store decide each fire time: ``*/5 * * * * onejob once send-mail --per 5m --
    /srv/shop/manage.py send_mail``.

    Without onejob: the command first inserts a row with a unique key of (job, fire time), and
    ends if the row was there. Or keep the file on one machine only, and watch that it lives.

When to ignore
    The job is about its own host: it renews the host's certificate, rotates its logs.
"""

CODE = "OJ120"
NAME = "host-schedule"
KINDS = (
    "crontab",
    "crontab-pipe",
    "cron-directory",
    "whenever",
    "systemd-timer",
    "uwsgi-cron",
    "ansible-cron",
    "launchd",
    "windows-task",
)
ADVICE = (
    "Write onejob once NAME --per day -- before the command (--per 5m, --per hour: as often "
    "as it fires). Without onejob: let it first insert a row with a unique key of (job, fire "
    "time), and end if the row was there."
)
