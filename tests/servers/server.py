"""What a server for tests is, and the two answers to asking for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
