"""A virtual environment for each peer, made on demand and kept under ``.bench/``.

Never ours: what a peer needs must not decide what we run with.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

HOME = Path(__file__).resolve().parents[1] / ".bench"
INSTALL_SECONDS = 300.0


class Unavailable(Exception):
    """The packages can't be had here; the message says why."""


@cache
def python_with(packages: tuple[str, ...]) -> Path:
    """Return a Python that has these packages, installing them if need be.

    Raises Unavailable, each time anew: a failed installation is not kept.
    """
    directory = HOME / "-".join(name.partition("[")[0] for name in packages)
    python = directory / "bin" / "python"
    stamp = directory / "installed"
    if stamp.is_file() and stamp.read_text() == " ".join(packages):
        return python
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(directory)], [*pip, *packages]):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"no environment: {error}") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Unavailable(f"can't be installed: {last}")
    stamp.write_text(" ".join(packages))
    return python
