"""Where the tables are: a URL, read and checked before anything is opened.

A URL holds a password. Only ``where`` is ever shown: host and database, put together from parts
that passed a strict pattern. What did not pass is not echoed in the message either, because a
password with a ``/`` or ``#`` in it makes everything after it look like something else.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

from onejob.errors import UsageError

Dialect = Literal["sqlite", "postgresql", "mariadb", "redis", "memory"]

#: What App() uses when nothing is said.
DEFAULT = "sqlite:///onejob.db"

_EXAMPLES = (
    "sqlite:///jobs.db, postgresql://user@host:5432/database, mariadb://user@host:3306/database, "
    "redis://host:6379/0 or memory://"
)
_REDIS = ("redis", "rediss", "valkey", "valkeys", "redis+sentinel", "redis+cluster")
_HOSTS = re.compile(
    r"(?:(?:[\w.~%-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?)(?:,(?:[\w.~%-]+)(?::\d{1,5})?)*"
)
_OPTION = re.compile(r"[a-z_]+=[^=@]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")


@dataclass(frozen=True, slots=True)
class Url:
    """A checked URL. ``target`` is what the driver is given and is never shown."""

    dialect: Dialect
    where: str
    target: str = field(repr=False)


def parse(url: object) -> Url:
    """Check a URL; UsageError says what is wrong without repeating it."""
    if not isinstance(url, str):
        raise UsageError(
            f"the URL must be text, not {type(url).__name__}. Write one such as {_EXAMPLES}."
        )
    scheme, mark, rest = url.strip().partition("://")
    match scheme.lower():
        case _ if not mark:
            raise UsageError(f"this is not a URL: it has no '://'. Write one such as {_EXAMPLES}.")
        case "sqlite":
            return _sqlite(rest)
        case "postgresql" | "postgres":
            return _postgresql(rest)
        case "memory":
            return _memory(rest)
        case known if known in _REDIS:
            return _redis(known, rest)
        case "mariadb" | "mysql":
            return _mariadb(rest)
        case known if re.fullmatch(r"(?:postgresql|postgres|sqlite|mariadb|mysql)\+\w+", known):
            raise UsageError(
                f"a driver in the scheme ({known}) belongs to another library. "
                f"Write {known.partition('+')[0]}:// without it."
            )
        case _:
            raise UsageError(f"this URL names no store that onejob knows. Write {_EXAMPLES}.")


def _sqlite(rest: str) -> Url:
    if not rest.startswith("/"):
        raise UsageError(
            "a SQLite URL has three slashes before a relative file and four before an absolute "
            "one: sqlite:///jobs.db, sqlite:////var/lib/jobs.db."
        )
    path = rest[1:]
    if path in ("", ":memory:") or path.endswith(("/", os.sep)):
        raise UsageError(
            "this SQLite URL names no file, and a database in memory belongs to one connection "
            "only. Name a file, sqlite:///jobs.db, or use memory:// for a test."
        )
    if "?" in path or "#" in path or "\0" in path:
        raise UsageError("a SQLite URL takes no options after the file: sqlite:///jobs.db.")
    path = os.path.abspath(path)
    return Url("sqlite", path, path)


def _memory(rest: str) -> Url:
    if rest.strip("/"):
        raise UsageError("memory:// takes nothing after it: each App has a memory of its own.")
    return Url("memory", "memory", "")


def _postgresql(rest: str) -> Url:
    unreadable = UsageError(
        "this is not a PostgreSQL URL that can be read. Percent-encode what is special in user "
        "and password (@ is %40, / is %2F, # is %23, ? is %3F): "
        "postgresql://user:password@host:5432/database."
    )
    try:
        parts = urlsplit(f"postgresql://{rest}")
    except ValueError:
        raise unreadable from None
    hosts = parts.netloc.rpartition("@")[2]
    options = parts.query.split("&") if parts.query else []
    if (
        parts.fragment
        or "#" in rest
        or "@" in parts.path
        or any(character.isspace() or not character.isprintable() for character in rest)
        or _BAD_ESCAPE.search(rest)
        or not _HOSTS.fullmatch(hosts)
        or not all(map(_OPTION.fullmatch, options))
    ):
        raise unreadable
    given = dict(option.split("=", 1) for option in options)
    database = unquote(given.get("dbname") or parts.path.lstrip("/"))
    if "=" in database or "://" in database:
        raise UsageError(
            "the database in this PostgreSQL URL is itself a connection text. Write its parts in "
            "the URL: postgresql://user:password@host:5432/database."
        )
    host = unquote(given.get("host") or hosts) or "the local socket"
    return Url("postgresql", f"{host}/{database}", f"postgresql://{rest}")


def _mariadb(rest: str) -> Url:
    unreadable = UsageError(
        "this is not a MariaDB URL that can be read. Percent-encode what is special in user and "
        "password (@ is %40, / is %2F, # is %23, ? is %3F): "
        "mariadb://user:password@host:3306/database."
    )
    try:
        parts = urlsplit(f"mariadb://{rest}")
        port = parts.port
    except ValueError:
        raise unreadable from None
    host = parts.netloc.rpartition("@")[2]
    options = parts.query.split("&") if parts.query else []
    if (
        parts.fragment
        or "#" in rest
        or "@" in parts.path
        or port == 0
        or any(character.isspace() or not character.isprintable() for character in rest)
        or _BAD_ESCAPE.search(rest)
        or not _HOSTS.fullmatch(host)
        or not all(map(_OPTION.fullmatch, options))
    ):
        raise unreadable
    if "," in host:
        raise UsageError(
            "a MariaDB URL names one server: mariadb://user@host:3306/database. Put a proxy, or a "
            "name that moves with the primary, in front of several."
        )
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise UsageError(
            "this MariaDB URL names no database. Write it after the host: "
            "mariadb://user:password@host:3306/database."
        )
    return Url("mariadb", f"{host or '127.0.0.1'}/{database}", f"mariadb://{rest}")


def _redis(scheme: str, rest: str) -> Url:
    unreadable = UsageError(
        "this is not a Redis URL that can be read. Percent-encode what is special in user and "
        "password (@ is %40, / is %2F, # is %23): redis://:password@host:6379/0."
    )
    try:
        parts = urlsplit(f"redis://{rest}")
    except ValueError:
        raise unreadable from None
    hosts = parts.netloc.rpartition("@")[2]
    database = parts.path.strip("/")
    options = parts.query.split("&") if parts.query else []
    if (
        parts.fragment
        or "#" in rest
        or not re.fullmatch(r"(?:[\w.~-]+/)?\d*|[\w.~-]+", database)
        or any(character.isspace() or not character.isprintable() for character in rest)
        or _BAD_ESCAPE.search(rest)
        or not _HOSTS.fullmatch(hosts)
        or not all(map(_OPTION.fullmatch, options))
    ):
        raise unreadable
    return Url("redis", f"{hosts or 'localhost'}/{database or 0}", f"{scheme}://{rest}")
