"""How a replica's process ends with its parent: when its standard input does."""

from __future__ import annotations

import os
import sys
import threading


def end_with_input() -> None:
    """From now on, end this process at once when its parent closes its input, or is gone."""
    threading.Thread(target=_exit_with_input, daemon=True).start()


def wait_for_input_to_end() -> None:
    """Return when the parent closes the input: it asks for a clean stop, or is gone."""
    # The bare descriptor: a thread inside sys.stdin's lock would stop the interpreter's own exit.
    while os.read(sys.stdin.fileno(), 4096):
        pass


def _exit_with_input() -> None:
    wait_for_input_to_end()
    os._exit(0)
