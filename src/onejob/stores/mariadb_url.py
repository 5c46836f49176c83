"""What a MariaDB or MySQL URL says, as the driver takes it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from onejob.errors import UsageError

PORT = 3306

_FILES = ("ssl_ca", "ssl_cert", "ssl_key", "unix_socket")
_SWITCHES = {"1": True, "true": True, "0": False, "false": False}


def options(url: str) -> dict[str, Any]:
    """Return the driver's arguments for a URL that has been checked."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if given.pop("charset", "utf8mb4") != "utf8mb4":
        raise UsageError("onejob writes utf8mb4: leave charset= out of this URL.")
    verify = given.pop("ssl_verify_identity", None)
    if verify is not None and verify.lower() not in _SWITCHES:
        raise UsageError("ssl_verify_identity= is true or false.")
    if unknown := sorted(given.keys() - set(_FILES)):
        raise UsageError(
            f"this URL has an option that is not known here: {', '.join(unknown)}. Known: "
            f"{', '.join(_FILES)} and ssl_verify_identity."
        )
    found: dict[str, Any] = {name: value for name, value in given.items() if value}
    if verify is not None:
        found["ssl_verify_identity"] = _SWITCHES[verify.lower()]
    found |= {
        "host": unquote(parts.hostname or "127.0.0.1"),
        "port": parts.port or PORT,
        "database": unquote(parts.path.lstrip("/")),
        "password": unquote(parts.password or ""),
    }
    if parts.username:
        found["user"] = unquote(parts.username)
    return found
