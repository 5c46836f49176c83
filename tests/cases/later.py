"""Cases, or parts of cases, that later subjects show: nothing here promises them yet."""

from __future__ import annotations

_INBOX = "inbox and its consumers"

LATER = {
    "B08": _INBOX,
    "B09": _INBOX,
    "B10": _INBOX,
    "B12": _INBOX,
    "E04": _INBOX,
    "E05": _INBOX,
    "E25": _INBOX,
    "F01": "operations: the doctor names the oldest transaction",
    "F03": "operations: telling since when a replica listens",
    "F08": "operations: enqueueing goes on when NOTIFY fails",
    "G02": "the dashboard",
    "G06": "operations: a server that is out of connections",
}
