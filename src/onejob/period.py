"""``app.once_per``: a function that takes effect once in each period, whoever calls it.

Any number of replicas may call it: from threads, from loops of their own, from cron. One has the
period of this moment, and runs; the others get :data:`SKIPPED`, now and for as long as the period
lasts. It does not call by itself: a period that was given back, or whose process died, waits for
the next call.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from enum import Enum
from typing import (
    Any,
    Final,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
    overload,
)
from zoneinfo import ZoneInfo

from onejob import turn as turns
from onejob.commands import claims
from onejob.core.lease import LEAST_LEASE
from onejob.core.names import check_name
from onejob.core.period import Per
from onejob.core.run import error_text
from onejob.core.time import Duration, duration
from onejob.errors import LeaseLost, OnejobError, OutcomeUnknown, StoreUnavailable, UsageError
from onejob.runtime.held import Held
from onejob.services import Services
from onejob.steps import Steps, acarry, carry
from onejob.turn import NoTurn, Turn, Wish

P = ParamSpec("P")
T = TypeVar("T")

OnStoreDown: TypeAlias = Literal["skip", "fire"]


class Skipped(Enum):
    """What a call returns that had nothing to do; false where truth is asked."""

    SKIPPED = "skipped"

    def __bool__(self) -> bool:
        return False

    def __await__(self) -> Generator[None, None, Skipped]:
        """Be awaited as what a call returns that has something to do, where that is a task."""
        yield from ()
        return self

    def __repr__(self) -> str:
        return "onejob.SKIPPED"

    __str__ = __repr__


SKIPPED: Final = Skipped.SKIPPED
"""Returned instead of a result: the period is somebody else's, or has been done."""


class OncePer(Protocol):
    """The decorator: what it returns takes the same arguments, and may return SKIPPED."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Callable[P, Coroutine[Any, Any, T | Skipped]]: ...

    @overload
    def __call__(self, function: Callable[P, T], /) -> Callable[P, T | Skipped]: ...


class Periods:
    """``app.once_per``, and which names it has given. ``disabled`` says that nothing may fire."""

    def __init__(self, services: Callable[[], Services], disabled: Callable[[], bool]) -> None:
        self._services, self._disabled = services, disabled
        self._named: dict[str, str] = {}

    def once_per(
        self,
        per: Duration,
        *,
        tz: str | ZoneInfo | None = None,
        name: str | None = None,
        ttl: Duration = "30s",
        keep_failed: bool = False,
        on_store_down: OnStoreDown = "skip",
    ) -> OncePer:
        """Run a function once in each period over all processes; elsewhere return SKIPPED.

        ``per`` is ``"day"`` (also minute, hour, week, month), an interval such as ``"15m"``, or a
        cron expression whose fire times are the boundaries; days begin in ``tz``, UTC where None.
        The period is claimed under ``name`` (the function's, unless given) and renewed while the
        function runs; ``ttl`` after its process has died, the next call takes it over. A function
        that raises gives its period back, unless ``keep_failed``. Where the store can't be reached
        the call is skipped, or with ``on_store_down="fire"`` made unguarded; either is logged.
        Raises LeaseLost when another process had to take over while the function was running; an
        async one is cancelled then.
        """
        cut = Per.parse(per, tz)
        lease = duration(ttl, what="ttl", least=LEAST_LEASE)
        if on_store_down not in ("skip", "fire"):
            raise UsageError(f"on_store_down={on_store_down!r} must be 'skip' or 'fire'.")
        if name is not None:
            check_name(name, what="period's name")

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            if isinstance(function, staticmethod):
                return staticmethod(decorate(function.__func__))
            scope = self._name(function, name)
            once = _Once(
                function, Wish(scope, lease, cut), self._services, keep_failed, on_store_down
            )
            if _is_async(function):

                @functools.wraps(function)
                async def acall(*args: Any, **kwargs: Any) -> Any:
                    if self._disabled():
                        return SKIPPED
                    return await once.acall(*args, **kwargs)

                return acall

            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                return SKIPPED if self._disabled() else once.call(*args, **kwargs)

            return call

        return cast("OncePer", decorate)

    def _name(self, function: Callable[..., Any], name: str | None) -> str:
        if not callable(function) or inspect.isclass(function):
            raise UsageError(f"once_per is for functions, not for {function!r}.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(
                f"{function.__name__} is a generator: its body runs after the call, outside its "
                "period. Decorate a function that does the work."
            )
        given = check_name(name or _called(function), what="period's name")
        module = getattr(function, "__module__", "")
        place = f"{module}.{getattr(function, '__qualname__', given)}"
        other = self._named.setdefault(given, place)
        if other != place:
            raise UsageError(
                f"the periods of {given!r} are those of {other} already: one of the two would "
                "never run. Give this one a name: name='other'."
            )
        return given


class _Once:
    """One decorated function. Its two calls differ in colour alone."""

    def __init__(
        self,
        function: Callable[..., Any],
        wish: Wish,
        services: Callable[[], Services],
        keep_failed: bool,
        on_store_down: OnStoreDown,
    ) -> None:
        self._function, self._wish, self._services = function, wish, services
        self._keep_failed, self._on_store_down = keep_failed, on_store_down
        self._tasks: set[asyncio.Task[Any]] = set()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        services = self._services()
        run = services.run()
        try:
            turn = carry(turns.take(self._wish, services, self._told(services)), run)
        except (StoreUnavailable, OutcomeUnknown) as trouble:
            if not self._fires(services, trouble):
                return SKIPPED
            return self._function(*args, **kwargs)
        if not self._is_ours(turn, services):
            return SKIPPED
        try:
            result = self._function(*args, **kwargs)
            if inspect.isawaitable(result) and result is not SKIPPED and _in_a_loop():
                return self._later(services, turn, result)
            _refuse_body(self._function, result)
        except BaseException as error:
            carry(self._raised(services, turn, error), run)
            raise
        carry(self._returned(services, turn), run)
        return result

    def _later(self, services: Services, turn: Turn, body: Awaitable[Any]) -> asyncio.Task[Any]:
        """Have what a wrapper returned run within the turn, whether it is awaited or not."""
        task = asyncio.ensure_future(self._within(services, turn, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        services = self._services()
        run = services.arun()
        taking = acarry(turns.take(self._wish, services, self._told(services)), run)
        try:
            turn = await _kept(taking, lambda turn: _give_back(services, turn))
        except (StoreUnavailable, OutcomeUnknown) as trouble:
            if not self._fires(services, trouble):
                return SKIPPED
            return await self._function(*args, **kwargs)
        if not self._is_ours(turn, services):
            return SKIPPED
        return await self._within(services, turn, self._function(*args, **kwargs))

    async def _within(self, services: Services, turn: Turn, work: Awaitable[Any]) -> Any:
        run = services.arun()
        held, body = turn.held, asyncio.ensure_future(work)
        held.on_lost = self._told(services, _canceller(body))
        if held.lost:
            body.cancel()
        try:
            result = await body
            _refuse_body(self._function, result)
        except BaseException as error:
            await _kept(acarry(self._raised(services, turn, error), run))
            if held.lost and body.cancelled() and not _is_cancelled():
                raise LeaseLost(held.what, token=held.token, why=held.lost) from error
            raise
        await _kept(acarry(self._returned(services, turn), run))
        return result

    def _fires(self, services: Services, trouble: OnejobError) -> bool:
        """Say what becomes of a call whose store is away; tell whether it is made all the same."""
        fires = self._on_store_down == "fire"
        services.events.emit(
            "period.store_down",
            scope=self._wish.scope,
            done="fired unguarded" if fires else "skipped",
            error=str(trouble),
        )
        return fires

    def _is_ours(self, turn: Turn | NoTurn, services: Services) -> TypeGuard[Turn]:
        if isinstance(turn, NoTurn):
            fields = {"scope": self._wish.scope, "key": turn.key, "why": turn.why}
            services.events.emit("period.skipped", **fields)
            return False
        services.events.emit("period.claimed", **_of(turn), attempt=turn.attempt)
        return True

    def _raised(self, services: Services, turn: Turn, error: BaseException) -> Steps[None]:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            yield from self._returned(services, turn)
            return
        said = error_text(error)
        keep = self._keep_failed and not isinstance(error, _BodyOutside)
        yield from turns.failed(turn, services, said, keep=keep)
        kept = "kept" if keep else "given back"
        services.events.emit("period.failed", **_of(turn), error=said, period=kept)

    def _returned(self, services: Services, turn: Turn) -> Steps[None]:
        if not (yield from turns.done(turn, services)):
            held = turn.held
            why = held.lost or "another process had taken it over when it was done"
            raise LeaseLost(held.what, token=held.token, why=why)
        services.events.emit("period.done", **_of(turn))

    def _told(
        self, services: Services, then: Callable[[], object] | None = None
    ) -> Callable[[Held], None]:
        """Return what the watch thread calls when the period is lost."""

        def tell(held: Held) -> None:
            if then is not None:
                then()
            fields = {"scope": self._wish.scope, "token": held.token, "why": held.lost}
            services.events.emit("period.lost", **fields)

        return tell


class _BodyOutside(UsageError):
    """What was called returned its body instead of running it."""


def _is_async(function: Any) -> bool:
    """Tell whether what it returns is awaited: an object may be called, and its method be async."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is asked for
    )


def _called(function: Any) -> str:
    return getattr(function, "__name__", "")


def _refuse_body(function: Any, result: Any) -> None:
    """Refuse a result that is work still to be begun: it would be done outside the period."""
    if inspect.isasyncgen(result):
        what = "an async generator"
    elif inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()
        what = f"a {type(result).__name__}"
    else:
        return
    raise _BodyOutside(
        f"{_called(function) or function!r} returned {what}, which runs after the call: outside "
        "its period, which was given back. Put once_per on the async function itself, below other "
        "decorators, or on a function that does the work."
    )


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _of(turn: Turn) -> dict[str, object]:
    return {"scope": turn.claim.scope, "key": turn.claim.key, "token": turn.claim.token}


def _give_back(services: Services, turn: Turn | NoTurn) -> None:
    """Give back later what was won when nobody waited for it any more."""
    if isinstance(turn, Turn):
        services.renewer.drop(turn.held)
        release = claims.release(turn.claim, keep=turn.keep, error="cancelled before it began")
        services.renewer.release_later(release, ttl=turn.held.ttl)


def _canceller(body: asyncio.Future[Any]) -> Callable[[], None]:
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(body.cancel)

    return cancel


def _is_cancelled() -> bool:
    """Tell whether somebody else has cancelled the task that we are in."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _kept(work: Coroutine[Any, Any, T], late: Callable[[T], object] | None = None) -> T:
    """Await work that goes on when we are cancelled; its result is then handed to ``late``."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if late is not None and not task.cancelled():
            task.add_done_callback(lambda ended: ended.exception() or late(ended.result()))
        raise
