"""The command line without its script."""

from __future__ import annotations

import subprocess
import sys


def test_the_package_is_run_as_a_module() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "onejob", "--help"], capture_output=True, text=True, timeout=30
    )

    assert ended.returncode == 0
    assert ended.stdout.startswith("Usage: onejob ")
