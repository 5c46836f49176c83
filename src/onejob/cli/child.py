"""A program of the user's, run under a lease: watched, passed signals, stopped when it is lost.

Its streams are ours, untouched. It gets a process group of its own, so that what it starts is ended
with it; at a terminal it stays in ours, where Ctrl-C and Ctrl-Z reach both, and is ended alone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final

from onejob.cli.leash import Leash, Quarry
from onejob.core.lease import last_call
from onejob.core.time import SECOND, Span
from onejob.runtime.clock import SystemClock
from onejob.runtime.held import LATE

#: Signals that are passed on, unless we were started with them ignored.
PASSED_ON: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_TO_EVERYBODY: Final = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
_FROM_TERMINAL: Final = {signal.SIGINT, signal.SIGQUIT}

_NAP: Final = 1 * SECOND


@dataclass(frozen=True, slots=True)
class Grip:
    """The lease that the program runs under: why it is over ("" while it is not), until when."""

    over: Callable[[], str]
    deadline: Callable[[], int]
    ttl: Span

    @property
    def look_every(self) -> Span:
        """Return a pause that is short against those between renewals, and from the last to the
        end: the leash must have heard of a renewal before it acts."""
        return Span(self.ttl // 24)

    def beside(self, other: Grip) -> Grip:
        """Return both at once: over when either is."""
        return Grip(
            lambda: self.over() or other.over(),
            lambda: min(self.deadline(), other.deadline()),
            min(self.ttl, other.ttl),
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended: an exit code as shells count them, and why it was stopped, where it was."""

    code: int
    stopped: str = ""


class CannotStart(Exception):
    """The program was not found, or may not be executed."""


class Child:
    """One program, before, while and after it runs. Made in the main thread, which gets signals."""

    def __init__(self, leash: Leash, *, grace: Span) -> None:
        self._leash, self._grace = leash, grace
        self._clock = SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        self._at_terminal = os.isatty(0)
        self.asked_to_end = 0
        """The first signal to end that came before the program had begun."""
        self._early: list[int] = []
        self._woken, self._wakes = os.pipe()
        for end in (self._woken, self._wakes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noted)
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def wake(self) -> None:
        """Have the main thread look at the lease now; from any thread."""
        try:
            os.write(self._wakes, b"\0")
        except BlockingIOError:
            pass  # it has not looked at the last ones yet

    def run(self, command: Sequence[str], environment: Mapping[str, str], grip: Grip) -> Ended:
        """Run the program to its end, or stop it: at once when the lease is lost, and so long
        before its deadline when it is not renewed that the program is gone by then."""
        try:
            process = subprocess.Popen(
                command, env=environment, process_group=None if self._at_terminal else 0
            )
        except (OSError, ValueError) as error:
            raise CannotStart(
                f"{error}. Give an executable program: its path, or its name if it is on PATH."
            ) from error
        self._process = process
        quarry = Quarry(process.pid, group=not self._at_terminal)
        if self.asked_to_end:
            quarry.ask(self.asked_to_end)
        for number in self._early:
            Quarry(process.pid, group=False).signal(number)
        stopped, kill_at = "", grip.deadline()
        while process.poll() is None:
            now = self._clock.now()
            if not stopped and (stopped := self._why_stop(grip)):
                kill_at = min(kill_at, now + self._grace)
                self._leash.tell(quarry, ask_at=kill_at, deadline=kill_at, grace=self._grace)
                quarry.ask(signal.SIGTERM)
            if stopped and now >= kill_at:
                break
            if stopped:
                self._wait(kill_at - now)
            else:
                kill_at, ask_at = grip.deadline(), self._ask_at(grip)
                # The leash a little later: where we are alive the program is not asked twice.
                later = ask_at + (kill_at - ask_at) // 4
                self._leash.tell(quarry, ask_at=later, deadline=kill_at, grace=self._grace)
                self._wait(min(grip.look_every, ask_at - now))
        # Thawed after the lease was over: it was the leash that stopped it, and rightly.
        stopped = stopped or (self._why_stop(grip) if process.returncode != 0 else "")
        if stopped:
            quarry.signal(signal.SIGKILL)
        self._leash.release()
        code = process.wait()
        return Ended(code if code >= 0 else 128 - code, stopped)

    def _ask_at(self, grip: Grip) -> int:
        return grip.deadline() - last_call(grip.ttl, grace=self._grace)

    def _why_stop(self, grip: Grip) -> str:
        """Say why the program must end: its lease is over, or about to be."""
        return grip.over() or (LATE if self._clock.now() >= self._ask_at(grip) else "")

    def _wait(self, span: int) -> None:
        """Wait for a signal, or the loss of the lease, and for no longer than this."""
        select.select([self._woken], [], [], max(0, min(span, _NAP)) / SECOND)
        try:
            os.read(self._woken, 4_096)
        except BlockingIOError:
            pass

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        process = self._process
        if process is None:
            if number in _TO_EVERYBODY:
                self.asked_to_end = self.asked_to_end or number
            else:
                self._early.append(number)
        elif process.returncode is None and not (self._at_terminal and number in _FROM_TERMINAL):
            everybody = not self._at_terminal and number in _TO_EVERYBODY
            quarry = Quarry(process.pid, group=everybody)
            if number in _TO_EVERYBODY:
                quarry.ask(number)
            else:
                quarry.signal(number)


def _noted(number: int, frame: FrameType | None) -> None:
    """Take note that a child has ended: the main thread is woken by the signal itself."""
