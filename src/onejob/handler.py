"""A job as a replica executes it: arguments decoded, its run at hand, its monitor told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from onejob.core.time import duration
from onejob.heartbeat import Heartbeat, check_heartbeat
from onejob.run import AsyncRun, Entered, Run
from onejob.runtime.attempt import Attempt
from onejob.services import Services

if TYPE_CHECKING:
    from onejob.job import Job


class Handler:
    """A job as the runtime executes it: arguments decoded, its run at hand."""

    def __init__(
        self, job: Job[Any, Any, Any], services: Services, zones: Mapping[str, ZoneInfo]
    ) -> None:
        self.name, self.is_async = job.name, job.signature.is_async
        self.retry = job.options.retry
        self.log_fields = tuple(job.options.log_fields)
        timeout = job.options.timeout
        self.timeout = None if timeout is None else duration(timeout, what="timeout")
        self._job, self._services, self._zones = job, services, zones
        url = job.options.heartbeat
        self._heartbeat = None if url is None else Heartbeat(check_heartbeat(url), services.events)

    def invoke(self, attempt: Attempt) -> Any:
        """Call the function with its decoded arguments; an async one returns its awaitable."""
        return self._awaited(attempt) if self.is_async else self._called(attempt)

    def result(self, value: object) -> str | None:
        """Encode what the function returned. UsageError: it can't be stored."""
        return self._job.signature.encode_result(value)

    def _called(self, attempt: Attempt) -> Any:
        run, args, kwargs = self._prepared(attempt, Run)
        around = self._services.handling()
        if around is None and self._heartbeat is None:
            with Entered(run):
                return self._job.function(*args, **kwargs)
        with around or nullcontext(), self._beating(attempt), Entered(run):
            return self._job.function(*args, **kwargs)

    async def _awaited(self, attempt: Attempt) -> Any:
        run, args, kwargs = self._prepared(attempt, AsyncRun)
        around = self._services.ahandling()
        if around is None and self._heartbeat is None:
            # What stands around nothing costs as much as a short handler.
            with Entered(run):
                return await self._job.function(*args, **kwargs)
        async with around or nullcontext():
            with self._beating(attempt), Entered(run):
                return await self._job.function(*args, **kwargs)

    @contextmanager
    def _beating(self, attempt: Attempt) -> Iterator[None]:
        """Tell the job's monitor, if it has one, that this attempt begins, and that it completed.

        Where it ends otherwise, the monitor hears once that is written down.
        """
        if self._heartbeat is not None:
            self._heartbeat.begun(attempt.run.id)
        yield
        if self._heartbeat is not None and attempt.settled:
            self._heartbeat.completed(attempt.run.id)

    def _prepared(
        self, attempt: Attempt, colour: type[Run] | type[AsyncRun]
    ) -> tuple[Run | AsyncRun, tuple[Any, ...], dict[str, Any]]:
        signature = self._job.signature
        bound = signature.decode(attempt.run.args)
        tz = self._zones.get(attempt.run.schedule, ZoneInfo("UTC"))
        run = colour(attempt, self._services, args=bound, tz=tz)
        args, kwargs = signature.spread(bound)
        return run, ((run, *args) if signature.takes_run else args), kwargs
