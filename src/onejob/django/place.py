"""Where the database of an alias is, as our store's driver reads it.

Asked anew each time: Django's tests give an alias another database while they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from onejob import url as urls
from onejob.adapters import family
from onejob.errors import UsageError

#: Entries of OPTIONS that mean something to Django or to psycopg, and nothing to the server.
_NOT_LIBPQ: Final = {
    "assume_role",
    "client_encoding",
    "context",
    "cursor_factory",
    "isolation_level",
    "pool",
    "prepare_threshold",
    "server_side_binding",
}


def settings_of(alias: str) -> Mapping[str, Any]:
    """Return the settings of an alias as they are now. UsageError: there is no such alias."""
    try:
        found: Mapping[str, Any] = connections[alias].settings_dict
    except ConnectionDoesNotExist:
        raise UsageError(
            f"ONEJOB['DATABASE']={alias!r} is no alias in DATABASES, which has: "
            f"{', '.join(sorted(connections))}."
        ) from None
    return found


def in_memory(alias: str) -> bool:
    """Tell whether this is SQLite in memory, which lives in Django's connections alone."""
    settings_of(alias)
    connection = connections[alias]
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def place_of(alias: str) -> urls.Url:
    """Return where an alias leads. UsageError for a kind of database that has no store."""
    given = settings_of(alias)
    dialect = family(connections[alias].vendor)
    match dialect:
        case "sqlite":
            return _sqlite(alias, str(given["NAME"]))
        case "postgresql":
            return urls.parse(postgresql(given))
        case "mariadb":
            return urls.parse(f"mariadb://{_authority(given)}{_path(given)}")
        case _:
            raise UsageError(
                f"DATABASES[{alias!r}] is {connections[alias].display_name}, which onejob cannot "
                "keep its tables in. Name a PostgreSQL or SQLite alias in ONEJOB['DATABASE'], or a "
                "store of its own in ONEJOB['URL']."
            )


def postgresql(given: Mapping[str, Any]) -> str:
    """Return the URL of a PostgreSQL database by its entry in DATABASES."""
    return f"postgresql://{_authority(given)}{_path(given)}{_options(given)}"


def _sqlite(alias: str, name: str) -> urls.Url:
    if in_memory(alias):
        return urls.Url("sqlite", "the memory of this process", "")
    if name.startswith("file:"):
        raise UsageError(f"DATABASES[{alias!r}]['NAME'] is a URI. Give onejob the file's path.")
    return urls.parse(f"sqlite:///{name}")


def _authority(given: Mapping[str, Any]) -> str:
    host, port = str(given.get("HOST") or ""), str(given.get("PORT") or "")
    if host.startswith("/"):
        host = ""  # the folder of a socket, among the options
    if ":" in host:
        host = f"[{host}]"
    user = quote(str(given.get("USER") or ""), safe="")
    password = quote(str(given.get("PASSWORD") or ""), safe="")
    who = f"{user}:{password}@" if password else f"{user}@" if user else ""
    return f"{who}{host}:{port}" if port and host else f"{who}{host}"


def _path(given: Mapping[str, Any]) -> str:
    return f"/{quote(str(given.get('NAME') or ''), safe='')}"


def _options(given: Mapping[str, Any]) -> str:
    """Return OPTIONS that libpq reads, after a ``?``."""
    options: dict[str, str] = {}
    host, port = str(given.get("HOST") or ""), given.get("PORT")
    if host.startswith("/"):
        options["host"] = host
    if port and (not host or host.startswith("/")):
        options["port"] = str(port)
    more: Mapping[str, Any] = given.get("OPTIONS") or {}
    for name, value in more.items():
        if name not in _NOT_LIBPQ and isinstance(value, (str, int)):
            options[name] = str(value)
    if role := more.get("assume_role"):
        options["options"] = f"{options.get('options', '')} -c role={role}".strip()
    texts = [f"{name}={quote(value, safe='')}" for name, value in options.items()]
    return f"?{'&'.join(texts)}" if texts else ""
