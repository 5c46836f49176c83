"""A job: a named function with its policies, callable, and enqueueable under typed arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import update_wrapper
from os import urandom
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    overload,
)
from zoneinfo import ZoneInfo

from onejob.commands.runs import NewRun
from onejob.core.names import check_name
from onejob.core.payload import Signature, fingerprint
from onejob.core.retry import OnLoss, Retry
from onejob.core.time import LATEST, SECOND, Duration, Span, duration, instant
from onejob.errors import UsageError
from onejob.handler import Handler
from onejob.heartbeat import check_heartbeat
from onejob.queue import Enqueued, enqueue, enqueue_alike, enqueue_one
from onejob.run import AsyncRun, Run
from onejob.runtime.settings import Target
from onejob.services import Services
from onejob.steps import Steps, acarry, carry

C = ParamSpec("C")
P = ParamSpec("P")
R = TypeVar("R")

KeyOption: TypeAlias = str | Callable[[dict[str, Any]], str]

PRIORITY_MAX: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """A job's policies, checked when they are written down."""

    queue: str = "default"
    priority: int = 0
    retry: Retry = field(default_factory=Retry)
    timeout: Duration | None = None
    on_replica_loss: OnLoss = "retry"
    expect_within: Duration | None = None
    log_fields: Sequence[str] = ()
    heartbeat: str | None = None

    def __post_init__(self) -> None:
        check_name(self.queue, what="queue")
        check_priority(self.priority)
        given: object = self.retry
        if not isinstance(given, Retry):
            raise UsageError(f"retry={given!r} must be a Retry, such as Retry(attempts=3).")
        if self.timeout is not None:
            duration(self.timeout, what="timeout", least=Span(1_000))
        if self.on_replica_loss not in get_args(OnLoss):
            raise UsageError(
                f"on_replica_loss={self.on_replica_loss!r} must be 'retry', 'fail' or 'unknown'."
            )
        if isinstance(self.log_fields, str) or not isinstance(self.log_fields, Sequence):
            raise UsageError(
                f"log_fields={self.log_fields!r} must be a list of parameters' names, such as "
                "['order_id']."
            )
        if self.heartbeat is not None:
            check_heartbeat(self.heartbeat)
        self.target()

    def target(self) -> Target:
        """Return what runs of this job are made of, besides their arguments."""
        expect = self.expect_within
        return Target(
            queue=self.queue,
            priority=self.priority,
            on_loss=self.on_replica_loss,
            expect=(
                0 if expect is None else duration(expect, what="expect_within", least=Span(SECOND))
            ),
        )


def check_priority(priority: object) -> int:
    """Return the priority, or raise UsageError. 0 goes first, 9 last."""
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not (whole and isinstance(priority, int) and 0 <= priority <= PRIORITY_MAX):
        raise UsageError(f"priority={priority!r} must be a whole number, 0 (first) to 9 (last).")
    return priority


def check_job_name(name: object) -> str:
    """Return the name, or raise UsageError: a name (see ``check_name``) without ``/``."""
    name = check_name(name, what="job name")
    if "/" in name:
        # "pay" with key "card/1" and "pay/card" with key "1" would share their effects.
        raise UsageError(
            f"job name {name!r} has a '/' in it. A job's name and the run's key name a scope "
            "together, job/run key, and it must be clear where the name ends. "
            f"Use another sign: {name.replace('/', '.')!r}."
        )
    return name


class Job(Generic[C, P, R]):
    """A job of an App. Calling it calls the function, as Python does."""

    def __init__(
        self,
        function: Callable[C, R],
        name: str | None,
        options: JobOptions,
        services: Callable[[], Services],
    ) -> None:
        given = name if name is not None else getattr(function, "__name__", None)
        if given == "<lambda>" or given is None:
            raise UsageError("this function has no name of its own. Give one: name='resize'.")
        self.name = check_job_name(given)
        self.function, self.options = function, options
        self.target = options.target()
        self._services = services
        self.signature = Signature.of(function, name=self.name, run_types=(Run, AsyncRun))
        self._check_colour()
        self._check_log_fields()
        update_wrapper(self, function)
        self._plainly: Using[P] = self.using()

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> R:
        """Call the function here and now: no run, no retry, nothing recorded."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Job {self.name}>"

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Make a run with these arguments, due now. UsageError before any I/O."""
        return self._plainly.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """The same in a loop."""
        return await self._plainly.aenqueue(*args, **kwargs)

    def enqueue_many(self, items: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """Make many runs, each from the arguments of one item by name; see :class:`Using`."""
        return self._plainly.enqueue_many(items)

    async def aenqueue_many(self, items: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """The same in a loop."""
        return await self._plainly.aenqueue_many(items)

    def using(
        self,
        *,
        key: KeyOption | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        within: object = None,
    ) -> Using[P]:
        """Say how to enqueue, apart from the arguments.

        ``key`` names the run among those of this job (or is a function of its arguments): the same
        key makes no second one. ``at`` is an aware datetime, ``delay`` is added to it, or to now;
        ``within`` is your connection: the run exists when your transaction commits.
        """
        if key is not None and not callable(key):
            check_name(key, what="key")
        later = Span(0) if delay is None else duration(delay, what="delay")
        due = None if at is None else instant(at, what="at")
        if due is not None and due + later > LATEST:
            raise UsageError(
                f"at={at}, delay={delay!r}: the run would be due after 9999-12-30, where datetimes "
                "end. Give an earlier time."
            )
        return Using(
            self,
            self._services,
            key=key,
            delay=later,
            at=due,
            priority=self.options.priority if priority is None else check_priority(priority),
            within=within,
        )

    def new_run(self, key: str, args: Mapping[str, Any]) -> NewRun:
        """Return the run that these arguments would make; UsageError for what it cannot take."""
        return self.using(key=key)._run((), args)

    def handler(self, services: Services, zones: Mapping[str, ZoneInfo]) -> Handler:
        """Return this job as a replica executes it."""
        return Handler(self, services, zones)

    def _check_log_fields(self) -> None:
        for name in self.options.log_fields:
            if name not in self.signature.names:
                raise UsageError(
                    f"{self.name}: log_fields names {name!r}, and there is no such parameter. "
                    f"It has: {', '.join(self.signature.names) or 'none'}."
                )

    def _check_colour(self) -> None:
        if not self.signature.takes_run:
            return
        first = next(iter(getattr(self.function, "__annotations__", {}).values()), None)
        wanted, other = ("AsyncRun", "Run") if self.signature.is_async else ("Run", "AsyncRun")
        named = first if isinstance(first, str) else getattr(first, "__name__", "")
        if named.strip("'\"").rpartition(".")[2] == other:
            kind = "async" if self.signature.is_async else "sync"
            raise UsageError(
                f"{self.name}: this function is {kind}, and its run is not {other} but {wanted}. "
                f"Annotate it: run: {wanted}."
            )


@dataclass(frozen=True, slots=True)
class Using(Generic[P]):
    """How to enqueue a job; made by :meth:`Job.using`. May be used many times."""

    job: Job[Any, P, Any]
    _services: Callable[[], Services]
    key: KeyOption | None
    delay: Span
    at: int | None
    priority: int
    within: object

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """Make a run with these arguments. A known key makes none: ``created`` is False."""
        run, services = self._run(args, kwargs), self._services()
        answer = carry(enqueue_one(run), services.here(self.within))
        services.wake()
        return answer

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued:
        """The same in a loop."""
        run, services = self._run(args, kwargs), self._services()
        answer = await acarry(enqueue_one(run), services.ahere(self.within))
        services.wake()
        return answer

    def enqueue_many(self, items: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """Make many runs; answers in the order of ``items``.

        Every item is checked before anything is sent. A thousand at a time are made together; with
        ``within=`` all of them are.
        """
        steps, services = self._many(items), self._services()
        answers = carry(steps, services.here(self.within))
        services.wake()
        return answers

    async def aenqueue_many(self, items: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """The same in a loop."""
        steps, services = self._many(items), self._services()
        answers = await acarry(steps, services.ahere(self.within))
        services.wake()
        return answers

    def _many(self, items: Iterable[Mapping[str, Any]]) -> Steps[list[Enqueued]]:
        """Check every item now; return what makes their runs."""
        listed = self._listed(items)
        if self.key is not None:
            return enqueue([self._run((), item) for item in listed])
        signature = self.job.signature
        lists = signature.encode_many([signature.bind((), item) for item in listed])
        return enqueue_alike(self._new("", "", keyed=False), lists, _stems())

    def _listed(self, items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        given: Any = items
        listed = list(given) if isinstance(given, Iterable) else [given]
        for item in listed:
            # A dict first: asking an abstract class takes longer than all else here.
            if type(item) is not dict and not isinstance(item, Mapping):
                raise UsageError(
                    f"enqueue_many needs the arguments of each run by name, not {item!r}: "
                    "enqueue_many([{'image_id': 1}, {'image_id': 2}])."
                )
        if isinstance(self.key, str) and len(listed) > 1:
            raise UsageError(
                f"key={self.key!r} would name {len(listed)} runs at once, of which one is made. "
                "Give a function of the arguments: key=lambda a: f\"img-{a['image_id']}\"."
            )
        return listed

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NewRun:
        signature = self.job.signature
        bound = signature.bind(args, kwargs)
        text = signature.encode(bound)
        key = self.key(dict(bound)) if callable(self.key) else self.key
        if key is None:
            return self._new(urandom(16).hex(), text, keyed=False)
        return self._new(check_name(key, what="key"), text, keyed=True)

    def _new(self, key: str, args: str, *, keyed: bool) -> NewRun:
        options = self.job.options
        return NewRun(
            job=self.job.name,
            key=key,
            args=args,
            keyed=keyed,
            queue=options.queue,
            priority=self.priority,
            at=self.at,
            delay=self.delay,
            on_loss=options.on_replica_loss,
            fingerprint=fingerprint(args) if keyed else "",
            expect=self.job.target.expect,
        )


def _stems() -> Iterator[str]:
    """Yield random texts, 24 hex digits each: with a place behind it, a key like any other."""
    while True:
        yield urandom(12).hex()


class JobDecorator(Protocol):
    """What ``app.job(...)`` returns. A first parameter ``run`` is the worker's to give."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Run, P], R], /
    ) -> Job[Concatenate[Run, P], P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncRun, P], R], /
    ) -> Job[Concatenate[AsyncRun, P], P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Job[P, P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Job[..., ..., Any]:
        """Make the function a job."""
        ...
