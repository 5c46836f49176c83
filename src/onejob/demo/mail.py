"""The provider's client, as an application would have it: one POST for one mail."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

#: A provider that stays silent for longer than this counts as failed.
TIMEOUT_SECONDS = 20.0


class Mailer:
    """Sends mails in the name of one replica. Each thread keeps its own connection."""

    def __init__(self, url: str, replica: str) -> None:
        self._host = urlsplit(url).netloc
        self._replica = replica
        self._local = threading.local()

    def send(self, customer: int, idempotency_key: str = "") -> dict[str, Any]:
        """Send one mail; with a key the provider delivers it at most once, however often asked."""
        headers = {"Content-Type": "application/json", "X-Replica": self._replica}
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        connection = self._connection()
        try:
            connection.request("POST", "/mail", json.dumps({"customer": customer}), headers)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        except BaseException:
            connection.close()
            raise
        return answer

    def close(self) -> None:
        """Close this thread's connection."""
        self._connection().close()

    def _connection(self) -> HTTPConnection:
        if not hasattr(self._local, "connection"):
            self._local.connection = HTTPConnection(self._host, timeout=TIMEOUT_SECONDS)
        connection: HTTPConnection = self._local.connection
        return connection
