"""A fleet as its store shows it: who is there, which ticks there were, what became of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from examples.hosts import until
from onejob import App, RunInfo
from onejob.commands import views
from onejob.commands.views import ReplicaView

INTERVAL_SECONDS = 1
LEASE_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Fleet:
    """One store, looked at."""

    app: App

    def replicas(self) -> Sequence[ReplicaView]:
        """Return the replicas that are live."""
        return [one for one in self.app.store.run(views.replicas()) if not one.dead_at]

    def pid(self, replica: str) -> int:
        """Return the process of a replica, dead or alive."""
        every = self.app.store.run(views.replicas())
        return next(one.pid for one in every if one.id == replica)

    def wait_for_replicas(self, count: int) -> set[int]:
        """Wait until so many processes are in the fleet; return their ids."""
        until(lambda: len(self.replicas()) >= count, f"{count} replicas")
        return {replica.pid for replica in self.replicas()}

    def ended(self, schedule: str) -> list[RunInfo]:
        """Return the runs of a schedule that have ended, oldest fire time first."""
        runs = self.app.runs.find(schedule=schedule, state="ended", limit=1_000)
        return sorted(runs, key=lambda run: str(run.fire_time))

    def wait_for_ticks(self, schedule: str, count: int) -> None:
        """Wait until so many more runs of a schedule have ended than have by now."""
        wanted = len(self.ended(schedule)) + count
        until(lambda: len(self.ended(schedule)) >= wanted, f"{count} more ticks of {schedule}")

    def wait_until_done(self, schedule: str) -> None:
        """Wait, with the schedule paused, until each of its runs has ended."""
        self.app.schedules.pause(schedule)

        def idle() -> bool:
            runs = self.app.runs.find(schedule=schedule, limit=1_000)
            return all(run.state == "ended" for run in runs)

        until(idle, f"the end of every run of {schedule}")

    def fire_times(self, schedule: str) -> int:
        """Return how many ticks there were; each one run, on the grid, none left out, all fine."""
        runs = self.ended(schedule)
        assert {run.outcome for run in runs} == {"succeeded"}, runs
        times = [run.fire_time for run in runs if run.fire_time is not None]
        assert len(times) == len(runs)
        grid = timedelta(seconds=INTERVAL_SECONDS)
        assert times == [times[0] + grid * place for place in range(len(times))]
        return len(times)


def kill(pid: int) -> None:
    """End a process as the kernel does when memory runs out: it runs no more code."""
    os.kill(pid, signal.SIGKILL)
