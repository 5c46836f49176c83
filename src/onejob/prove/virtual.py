"""Virtual time: an event loop that jumps to the next timer, and clocks that go by it.

Every callback belongs to a :class:`Strand`, one thread of one simulated process, found in the
context in which it was scheduled. A frozen strand gets no turns while time goes on (SIGSTOP, a
blocked loop), a suspended one's timers stand still too (a laptop's lid), a dead one is never heard
of again. Callbacks of no strand are the world's own: the network, the store, the faults.

Turns are taken in the order in which they became ready, timers in the order of their time and then
of their making, so that one seed gives one history.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any, Final

from onejob.core.time import SECOND

#: So many turns without time moving on are a loop that spins.
TURNS_MOST: Final = 100_000

#: So often a coroutine may wait in its last lines before it is given up.
CLOSINGS_MOST: Final = 50

_strand: ContextVar[Strand | None] = ContextVar("onejob_strand", default=None)

#: The context of the world's own callbacks.
WORLD: Final = Context()


class Deadlock(RuntimeError):
    """Nothing is scheduled, now or ever, and the simulation is not over."""


class Livelock(RuntimeError):
    """Turns are taken for ever and time does not move: something waits without waiting."""


class Strand:
    """A thread of a simulated process: its callbacks run in ``context``."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.name = name
        self.dead = False
        self.slept = 0
        self._loop = loop
        self._frozen = 0
        self._suspended = False
        self._held: list[asyncio.Handle] = []
        self._dormant: list[tuple[int, asyncio.Handle]] = []
        self.context = Context()
        self.context.run(_strand.set, self)

    def die(self) -> None:
        """Take no turn ever again. What ran here is kept as it is."""
        self.dead = True
        self._loop.kept += asyncio.all_tasks(self._loop)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a task in this strand."""
        task = self._loop.create_task(work, context=self.context)
        self._loop.kept.append(task)
        return task

    def freeze(self) -> None:
        """Take no turn until thawed as often as frozen."""
        self._frozen += 1

    def thaw(self) -> None:
        """Take every turn that was due meanwhile, in its order."""
        self._frozen -= 1
        if self._frozen == 0:
            held, self._held = self._held, []
            for handle in held:
                self._loop.ready.append((self, handle))

    def suspend(self) -> None:
        """Freeze, and let the timers stand still as well."""
        self.freeze()
        self._suspended = True

    def resume(self, span: int) -> None:
        """End a suspension that has lasted for ``span``."""
        self._suspended = False
        self.slept += span
        dormant, self._dormant = self._dormant, []
        for when, handle in dormant:
            self._loop.push(when + span, handle, self)
        self.thaw()

    def takes(self, handle: asyncio.Handle, when: int | None = None) -> bool:
        """Tell whether a callback may run now; else keep it for later, or for never."""
        if self.dead:
            return False
        if when is not None and self._suspended:
            self._dormant.append((when, handle))
            return False
        if self._frozen:
            self._held.append(handle)
            return False
        return True


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without a selector: where others wait, it moves its clock."""

    def __init__(self) -> None:
        super().__init__()
        self.micros = 0
        self.ready: deque[tuple[Strand | None, asyncio.Handle]] = deque()
        self.troubles: list[dict[str, Any]] = []
        self._timers: list[tuple[int, int, asyncio.Handle, Strand | None, int]] = []
        #: Tasks that nobody will wake again, kept: collected, they would run their last lines.
        self.kept: list[asyncio.Task[Any]] = []
        self._made = 0
        self._turns = 0
        self._over = False

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.micros / SECOND

    def call_soon(  # type: ignore[override]  # the variadic generics of typeshed say the same
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next round of turns."""
        handle = asyncio.Handle(callback, args, self, context)
        if not self._over:
            strand = _strand.get() if context is None else context.get(_strand)
            self.ready.append((strand, handle))
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # as above
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Do the same: there is one thread here."""
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback at a time in seconds."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        strand = _strand.get() if context is None else context.get(_strand)
        self.push(max(self.micros, round(when * SECOND)), handle, strand)
        return handle

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback after a delay in seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def later(self, span: int, callback: Callable[..., Any], *args: Any) -> None:
        """Run a callback of the world's own after ``span`` microseconds."""
        handle = asyncio.Handle(callback, args, self, WORLD.copy())
        self.push(self.micros + span, handle, None)

    def push(self, when: int, handle: asyncio.Handle, strand: Strand | None) -> None:
        """Schedule a callback for a time in microseconds."""
        self._made += 1
        slept = strand.slept if strand else 0
        heapq.heappush(self._timers, (when, self._made, handle, strand, slept))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what went wrong in a callback: the simulation reports it."""
        if not self._over:
            self.troubles.append(context)

    def end(self) -> None:
        """End every task without another turn, and close.

        Coroutines are closed here, one by one, and not left to be collected at a random moment:
        their last lines would run in the middle of somebody else's play.
        """
        self.kept += asyncio.all_tasks(self)
        self.ready.clear()
        self._timers.clear()
        self._turns = 0
        self.run_until_complete(self._close_all())
        self._over = True
        self.close()

    async def _close_all(self) -> None:
        self._over, closed = True, set[int]()
        me = asyncio.current_task()
        for _ in range(CLOSINGS_MOST):
            tasks = [t for t in asyncio.all_tasks(self) if t is not me and id(t) not in closed]
            for task in tasks:
                closed.add(id(task))
                self.kept.append(task)
                _close(task.get_coro())
            if not tasks:
                break
        self._over = False

    def _run_once(self) -> None:
        """Give a turn to each callback that is ready, or move on to the next timer."""
        if not self.ready:
            self._move_on()
        for _ in range(len(self.ready)):
            strand, handle = self.ready.popleft()
            if not handle.cancelled() and (strand is None or strand.takes(handle)):
                handle._run()
        self._turns += 1
        if self._turns > TURNS_MOST:
            raise Livelock(f"{TURNS_MOST} rounds of turns at {self.time():.6f} s")

    def _move_on(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise Deadlock(f"nothing is scheduled after {self.time():.6f} s")
        if self._timers[0][0] > self.micros:
            self.micros, self._turns = self._timers[0][0], 0
        while self._timers and self._timers[0][0] <= self.micros:
            when, _, handle, strand, slept = heapq.heappop(self._timers)
            if handle.cancelled():
                continue
            if strand is not None and strand.slept > slept:
                # Its process was suspended since: the timer has that much still to go.
                self.push(when + strand.slept - slept, handle, strand)
            elif strand is None or strand.takes(handle, when):
                self.ready.append((strand, handle))


def _close(coroutine: Any) -> None:
    """Close a coroutine that may go on waiting in its last lines."""
    for _ in range(CLOSINGS_MOST):
        try:
            coroutine.close()
        except Exception:  # noqa: BLE001, S112 - it waited again, or failed: nobody is left to hear
            continue
        return


class VirtualClock:
    """A process's local clock: some arbitrary start, and a little too fast or too slow.

    It runs while the process is frozen or suspended, as CLOCK_BOOTTIME does.
    """

    def __init__(self, loop: VirtualLoop, *, start: int, drift_ppm: int) -> None:
        self._loop, self._start, self._drift = loop, start, drift_ppm

    def now(self) -> int:
        """Return local microseconds."""
        micros = self._loop.micros
        return self._start + micros + micros * self._drift // 1_000_000

    async def sleep(self, span: int) -> None:
        """Wait for local microseconds."""
        real = -(-max(0, span) * 1_000_000 // (1_000_000 + self._drift))
        await asyncio.sleep(real / SECOND)


class StoreClock:
    """The store's wall clock, which somebody may set forward or back."""

    def __init__(self, loop: VirtualLoop, *, start: int, drift_ppm: int) -> None:
        self._local = VirtualClock(loop, start=start, drift_ppm=drift_ppm)
        self.offset = 0

    def now(self) -> int:
        """Return microseconds since the epoch, as the store has it."""
        return self._local.now() + self.offset
