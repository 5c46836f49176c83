"""What becomes of an App in a forked child: nothing of its parent's is used there.

Threads do not survive a fork, so a replica that was started before it (``gunicorn --preload``, a
process that makes itself a daemon) is dead in the child without anybody's having stopped it. The
child starts one of its own after :data:`RESTART_SECONDS`, unless by then it has turned into another
program, is a worker of ``multiprocessing``, or has been told otherwise.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T")

#: Long enough for ``exec`` and for multiprocessing to say what this child is.
RESTART_SECONDS = 0.5


class Forkable(Protocol):
    """Something that holds threads or locks."""

    def after_fork(self, parent: int) -> None:
        """Give up, in the child, what belongs to the parent. Nothing else runs yet."""
        ...

    def stop(self) -> object:
        """Stop what runs in this process."""
        ...


_known: WeakSet[Any] = WeakSet()
_ending: list[bool] = []


def watch(one: Forkable) -> None:
    """Tell ``one`` about forks from now on, and stop it when the interpreter ends."""
    _known.add(one)
    if not _ending:
        _ending.append(True)
        # Before the pools of concurrent.futures close, so that a last settlement can be written;
        # plain atexit comes after them.
        register: Callable[[Callable[[], None]], object] = getattr(
            threading, "_register_atexit", atexit.register
        )
        register(_at_exit)


def watched(kind: type[T]) -> list[T]:
    """Return those of this kind that are watched and still there."""
    return [one for one in list(_known) if isinstance(one, kind)]


def restart_later(start: Callable[[], object]) -> None:
    """Call ``start`` in a moment, where this child turns out to be an ordinary process."""

    def restart() -> None:
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is None or multiprocessing.parent_process() is None:
            start()

    timer = threading.Timer(RESTART_SECONDS, restart)
    timer.name, timer.daemon = "onejob-restart", True
    timer.start()


def _at_exit() -> None:
    for one in list(_known):
        one.stop()


def _after_fork() -> None:
    parent = os.getppid()
    for one in list(_known):
        one.after_fork(parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
