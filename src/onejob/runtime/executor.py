"""Execute claimed runs: async handlers as tasks in the loop, sync ones in threads.

Every attempt ends in exactly one :class:`Settlement`, or in none at all when its lease is lost:
then the store has, or will have, another holder, and nothing here may speak for the run.
A thread can't be cancelled: its slot stays taken until it really ends.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor as ThreadPool
from concurrent.futures import ThreadPoolExecutor
from random import Random

from onejob.core.capacity import Capacity
from onejob.core.disclosure import allowed
from onejob.core.each import ComeBack, Fail, WaitForWord, ending
from onejob.core.retry import (
    MAX_INTERRUPTIONS,
    Cancel,
    RetryAt,
    RetryLater,
    after_failure,
)
from onejob.core.run import (
    Again,
    Claim,
    ClaimedRun,
    End,
    LeaveUnknown,
    Outcome,
    Park,
    RunId,
    Settlement,
    error_text,
    storable,
)
from onejob.core.time import SECOND, Instant
from onejob.errors import EffectUnknown, ItemsSetAside, LeaseLost, UsageError
from onejob.runtime.attempt import Attempt, Executable
from onejob.runtime.clock import Clock
from onejob.runtime.events import Events, log
from onejob.runtime.membership import Membership

#: How long a process whose threads did not end in time is given to end itself.
EXIT_SPAN = 1_000_000


class Executor:
    """The attempts of one replica: waiting for a slot, running, or waiting to be settled.

    ``threads`` is where sync handlers run, if not in a pool of its own.
    """

    def __init__(
        self,
        executables: Mapping[str, Executable],
        *,
        slots: int,
        clock: Clock,
        random: Random,
        events: Events,
        finished: Callable[[Attempt, Settlement], None],
        freed: Callable[[], None],
        threads: ThreadPool | None = None,
    ) -> None:
        self._executables, self._clock, self._random = executables, clock, random
        self._events, self._finished, self._freed = events, finished, freed
        self.capacity = Capacity(slots)
        self.attempts: dict[RunId, Attempt] = {}
        self._waiting: deque[Attempt] = deque()
        self._running: dict[Attempt, asyncio.Task[None]] = {}
        self._threads = threads or ThreadPoolExecutor(slots, thread_name_prefix="onejob-job")
        self._draining = False

    @property
    def held(self) -> int:
        """How many attempts wait for a slot or run."""
        return len(self._waiting) + len(self._running)

    def take(self, run: ClaimedRun, membership: Membership) -> None:
        """Take a claimed run over and start it as soon as a slot is free."""
        attempt = Attempt(run, membership, self._clock)
        self.attempts[run.id] = attempt
        self._waiting.append(attempt)
        self._fill()

    def settled(self, claim: Claim) -> None:
        """Forget an attempt whose settlement is written (not a newer one of the same run)."""
        attempt = self.attempts.get(claim.id)
        if attempt is not None and attempt.claim == claim:
            del self.attempts[claim.id]

    def lose(self, membership: Membership) -> None:
        """Stop every attempt under a lost membership: waiting ones never start."""
        self._waiting = deque(a for a in self._waiting if a.membership is not membership)
        for id, attempt in list(self.attempts.items()):
            if attempt.membership is not membership:
                continue
            attempt.revoke(membership.lost)
            self._events.emit("run.lost", run=id, token=attempt.run.token, why=membership.lost)
            task = self._running.get(attempt)
            if task is None:
                self._forget(attempt)
            elif self._executables[attempt.run.job].is_async:
                task.cancel()
        self._freed()

    def recall(self, attempt: Attempt) -> None:
        """Stop one attempt that somebody has cancelled: nothing is settled, it has ended."""
        attempt.revoke("somebody has cancelled it")
        ids = {"run": attempt.run.id, "token": attempt.run.token}
        self._events.emit("run.lost", **ids, why=attempt.lost)
        task = self._running.get(attempt)
        if task is None:
            self._waiting.remove(attempt)
            self._forget(attempt)
        elif self._executables[attempt.run.job].is_async:
            task.cancel()
        self._freed()

    async def drain(self, grace: int) -> bool:
        """Give back what has not started, let the rest finish for ``grace``, then interrupt it.

        Returns whether work was left. Threads that do not end in time are given back too: their
        attempts are revoked first, and the process is expected to end.
        """
        self._draining = True
        while self._waiting:
            attempt = self._waiting.popleft()
            self._finished(attempt, self._interrupted(attempt))
        if self._running:
            await asyncio.wait(self._running.values(), timeout=grace / SECOND)
        left = bool(self._running)
        for attempt, task in list(self._running.items()):
            attempt.revoke("its replica is stopping")
            if self._executables[attempt.run.job].is_async:
                task.cancel()
            elif self._forget(attempt):
                # A little later than at once: this process is about to end, and with it the thread.
                self._finished(attempt, self._interrupted(attempt, EXIT_SPAN))
        tasks = [task for a, task in self._running.items() if self._executables[a.run.job].is_async]
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        self._threads.shutdown(wait=False, cancel_futures=True)
        return left

    def _forget(self, attempt: Attempt) -> bool:
        """Forget this attempt, and no newer one of the same run that is here as well."""
        if self.attempts.get(attempt.run.id) is not attempt:
            return False
        del self.attempts[attempt.run.id]
        return True

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.capacity.slots:
            attempt = self._waiting.popleft()
            executable = self._executables.get(attempt.run.job)
            if executable is None:
                self._finished(attempt, Park())
            elif not attempt.membership.valid(self._clock.now()):
                # Claimed under a lease that has ended since: somebody else may have it by now.
                self._forget(attempt)
            else:
                work = self._execute(attempt, executable)
                self._running[attempt] = asyncio.get_running_loop().create_task(work)

    async def _execute(self, attempt: Attempt, executable: Executable) -> None:
        started = self._clock.now()
        attempt.begin(executable.timeout)
        settlement: Settlement | None = None
        try:
            settlement = await self._outcome(attempt, executable)
        except asyncio.CancelledError:
            if self._draining and not attempt.membership.lost:
                settlement = self._interrupted(attempt)
            elif not attempt.lost:
                # Nobody here asked for it: it came out of the handler like any other error.
                settlement = self._failure(attempt, executable, asyncio.CancelledError())
        except Exception as error:  # noqa: BLE001 - ours, or a policy's: never left unsettled
            log.exception("run %s ended in an error of its own", attempt.run.id)
            settlement = End(Outcome.FAILED, error=error_text(error))
        finally:
            self._running.pop(attempt, None)
            self.capacity.ended(self._clock.now() - started)
            if settlement is None:
                self._forget(attempt)
            elif self.attempts.get(attempt.run.id) is attempt:
                self._finished(attempt, settlement)
            if not self._draining:
                self._fill()
            self._freed()

    async def _outcome(self, attempt: Attempt, executable: Executable) -> Settlement | None:
        try:
            value = await self._call(attempt, executable)
        except LeaseLost as lost:
            return None if attempt.lost else self._failure(attempt, executable, lost)
        except TimeoutError as timeout:
            if (left := attempt.remaining()) is not None and left <= 0:
                return self._failure(attempt, executable, timeout, Outcome.TIMED_OUT)
            return self._failure(attempt, executable, timeout)
        except EffectUnknown as unknown:
            return LeaveUnknown(error_text(unknown), unknown.scope, unknown.key)
        except _Escaped as escaped:
            return self._failure(attempt, executable, escaped.error)
        except Cancel as cancel:
            return End(Outcome.CANCELLED, error=error_text(cancel))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the handler's edge
            return self._failure(attempt, executable, error)
        if attempt.left and (settlement := self._unfinished(attempt, executable)) is not None:
            return settlement
        try:
            return End(Outcome.SUCCEEDED, result=executable.result(value))
        except UsageError as error:
            # Its effects have happened: trying again would repeat them for the sake of a result.
            return End(Outcome.FAILED, error=error_text(error))

    def _unfinished(self, attempt: Attempt, executable: Executable) -> Settlement | None:
        """Say of a handler that returned what its loops set aside: that is no success."""
        match ending(attempt.left):
            case WaitForWord(scope, key, why):
                return LeaveUnknown(storable(why), scope, key)
            case ComeBack(why):
                return self._failure(attempt, executable, ItemsSetAside(why))
            case Fail(why):
                return End(Outcome.FAILED, error=storable(why))
            case None:
                return None

    async def _call(self, attempt: Attempt, executable: Executable) -> object:
        if executable.is_async:
            if executable.timeout is None:
                return await executable.invoke(attempt)
            return await asyncio.wait_for(executable.invoke(attempt), executable.timeout / SECOND)
        context = contextvars.copy_context()

        def call() -> tuple[object, BaseException | None]:
            # Not raised through the future: it knows what StopIteration, a cancellation or an
            # interrupt mean to a loop, and a function may raise any of them.
            try:
                return context.run(executable.invoke, attempt), None
            except BaseException as error:  # noqa: BLE001 - the handler's edge
                return None, error

        value, error = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        if error is None:
            return value
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise error
        raise _Escaped(error)

    def _failure(
        self,
        attempt: Attempt,
        executable: Executable,
        error: BaseException,
        why: Outcome = Outcome.FAILED,
    ) -> Settlement:
        decision = after_failure(
            executable.retry,
            attempt=attempt.run.attempt,
            failure=error,
            now=Instant(attempt.run.claimed),
            jitter=self._random.random(),
        )
        if isinstance(decision, RetryAt):
            if decision.trouble:
                log.warning("run %s: %s", attempt.run.id, decision.trouble)
            self._log(
                attempt, executable, error, f"{why}: again in {decision.delay / SECOND:.1f} s"
            )
            return Again(decision.delay, why, error_text(error))
        self._log(attempt, executable, error, f"{why}: {decision.reason}")
        return End(why, error=error_text(error))

    @staticmethod
    def _log(attempt: Attempt, executable: Executable, error: BaseException, what: str) -> None:
        if not isinstance(error, RetryLater):
            run = attempt.run
            where = f"run {run.id} ({run.scope}) attempt {run.attempt}"
            if shown := allowed(run.args, executable.log_fields):
                where = f"{where} with {shown}"
            log.warning("%s %s", where, what, exc_info=error)

    @staticmethod
    def _interrupted(attempt: Attempt, delay: int = 0) -> Settlement:
        if attempt.run.interrupted + 1 >= MAX_INTERRUPTIONS:
            return End(Outcome.INTERRUPTED, error=f"interrupted {MAX_INTERRUPTIONS} times")
        return Again(delay, Outcome.INTERRUPTED)


class _Escaped(Exception):
    """What a function raised that would mean something else to a loop."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error_text(error))
