"""Cases, or parts of cases, that later subjects show: nothing here promises them yet."""

from __future__ import annotations

LATER = {
    "F01": "operations: the doctor names the oldest transaction",
    "F03": "operations: telling since when a replica listens",
    "F08": "operations: enqueueing goes on when NOTIFY fails",
    "G02": "the dashboard",
    "G06": "operations: a server that is out of connections",
}
