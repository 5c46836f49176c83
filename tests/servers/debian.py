"""Install a package of Debian's, where there is apt and we are root."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from servers.server import NotThere

T = TypeVar("T")

#: One at a time: the processes of a test run may need the same package at the same moment.
TURN = Path(tempfile.gettempdir()) / "onejob-tests-apt.lock"
#: How long apt waits for somebody else's installation, in seconds.
PATIENCE = "120"


def installed(package: str, find: Callable[[], T | None]) -> T:
    """Return what ``find`` finds, with the package installed if need be. Raises NotThere.

    Unpacked is enough: its own service is kept from starting beside the private one, and a package
    that minds that has brought its programs all the same.
    """
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise NotThere("no apt-get, or not root")
    with TURN.open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if (found := find()) is not None:
            return found
        for step in (["update", "-q"], ["install", "-q", "-y", package]):
            done = subprocess.run(
                ["apt-get", "-o", f"DPkg::Lock::Timeout={PATIENCE}", *step],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"},
                capture_output=True,
                check=False,
            )
            if done.returncode != 0 and find() is None:
                raise NotThere(f"apt-get {step[0]} failed: {done.stderr.decode().strip()[-200:]}")
    found = find()
    if found is None:
        raise NotThere(f"Debian's {package} has not brought what was looked for")
    return found
