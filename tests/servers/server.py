"""What a server for tests is, and the two answers to asking for one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers. `url` may create databases; `origin` says whose server it is."""

    url: str
    version: str
    origin: str


@dataclass(frozen=True, slots=True)
class Absent:
    """No server could be had. `tried` says what was asked, `advice` what to install."""

    tried: tuple[str, ...]
    advice: str


class NotThere(Exception):
    """This source has no such server; the message says what was looked for."""


Source: TypeAlias = Callable[[], Running]


def first_of(
    name: str,
    sources: Mapping[str, Source],
    *,
    failures: tuple[type[Exception], ...],
    advice: str,
) -> Running | Absent:
    """Return the first source that has one; ``ONEJOB_TEST_NAME_FROM=one,another`` chooses.

    Who names a server by ``ONEJOB_TEST_NAME`` wants that one ("given"): another in its place would
    hide that it is down.
    """
    if chosen := os.environ.get(f"ONEJOB_TEST_{name}_FROM"):
        wanted = [source.strip() for source in chosen.split(",")]
    elif f"ONEJOB_TEST_{name}" in os.environ:
        wanted = ["given"]
    else:
        wanted = [source for source in sources if source != "given"]
    tried = []
    expected: tuple[type[Exception], ...] = (NotThere, *failures)
    for source in wanted:
        try:
            return sources[source]()
        except expected as failure:
            tried.append(f"{source}: {str(failure).strip()}")
    return Absent(tuple(tried), advice)


class Server(Protocol):
    """One kind of server.

    `start` is called at most once in a test run; it looks for a server in order of cheapness and
    starts one only when none is found. `stop` is always called, also after Ctrl-C and after an
    Absent: it removes what this run made, and ends, by process id, what this run started.
    """

    @property
    def name(self) -> str: ...

    def start(self, *, session: str) -> Running | Absent:
        """Answer with a server; what is made on it carries `session` in its name."""
        ...

    def stop(self) -> None: ...
