"""What both middlewares share: which requests are meant, whose they are, what their claims say.

1. Read the key, the caller and the body; refuse what is wrong with them. No I/O but the body's.
2. Claim (caller, key) in the inbox, with the hash of what is asked. What stands in the way is told.
3. Call the service, and hold its answer back until it is complete.
4. Record it under the claim's token, then send it.

A process that dies between 2 and 4 leaves a claim, which is unknown once its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from inspect import iscoroutinefunction
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, get_args

from onejob.app import App
from onejob.core.idempotency import (
    NEVER_REPLAYED,
    Answer,
    Fate,
    NotKept,
    OnFailure,
    as_result,
    caller_name,
    content,
    fate,
    of_result,
    read_key,
    replayable,
)
from onejob.core.payload import PAYLOAD_BYTES_MAX
from onejob.core.time import Duration, duration
from onejob.counts import check_count
from onejob.errors import (
    InProgress,
    KeyReused,
    LeaseLost,
    StoreError,
    UnsupportedByStore,
    UsageError,
)
from onejob.inbox import AsyncReceived, Received
from onejob.inbox.receiving import LEAST_CLAIM
from onejob.integrations.idempotency import problem
from onejob.integrations.idempotency.problem import Problem
from onejob.integrations.idempotency.request import Claim, Request
from onejob.steps import Call, Steps

S = TypeVar("S")

#: Who asks: text that no other caller can have; None where that is not known.
Caller: TypeAlias = Callable[[Request], Any]
Paths: TypeAlias = Collection[str] | Callable[[str], bool]
IfUnknown: TypeAlias = Literal["refuse", "repeat"]

#: How often an outcome is written before it is given up.
RECORD_TRIES: Final = 3

BODY_BYTES_MAX: Final = 64 * 1024 * 1024


class Idempotency(Generic[S]):
    """The service behind, and the rules. Raises UsageError for options that cannot be right.

    ``caller`` is a function of a :class:`Request` that tells who asks, by what nobody can forge: a
    verified account, or the credentials themselves (:func:`by_authorization`). It is kept as a
    hash. In ASGI it may be async; where it is not, it must not wait.

    Meant are requests with one of ``methods``, under one of ``paths`` (``"/orders"`` is that path
    and all below it; or a function of the whole path; None: every path). Without a key they are
    refused where ``required``, and passed on as they are where not.

    ``claim_for`` is how long one request may take. What nobody recorded by then is unknown: refused
    until a person says (``app.inbox(name).resolve``), or with ``if_unknown="repeat"`` carried out
    again. ``on_failure`` says what an answer from 500 on, or an exception, means for the key:
    ``"unknown"``; ``"release"`` where a request that fails has changed nothing; ``"keep"`` where
    that answer is final (an exception, which has none, is unknown).

    ``keep`` is how long answers are kept from when they were given: longer than any client goes on
    trying. ``body_bytes`` and ``response_bytes`` bound what is read and kept. ``fingerprint`` is a
    function of the Request and its body that returns what has to be the same in a repeat.
    ``never_replayed`` names headers that are left out of a repeat's answer, besides cookies.

    ``name`` is the inbox in which the keys stand: one for each service that has its own.
    """

    #: Whether a loop calls the service.
    in_a_loop: ClassVar[bool]

    def __init__(
        self,
        service: S,
        app: App,
        *,
        caller: Caller,
        methods: Collection[str] = ("POST", "PATCH"),
        paths: Paths | None = None,
        required: bool = True,
        if_unknown: IfUnknown = "refuse",
        on_failure: OnFailure = "unknown",
        claim_for: Duration = "5m",
        keep: Duration = "7d",
        body_bytes: int = 1_000_000,
        response_bytes: int = 256_000,
        fingerprint: Callable[[Request, bytes], object] | None = None,
        never_replayed: Collection[str] = (),
        name: str = "http",
    ) -> None:
        if not callable(caller):
            raise UsageError(
                f"caller={caller!r} must be a function of the request that tells who asks, such as "
                "by_authorization: without it, callers could read each other's answers."
            )
        if iscoroutinefunction(caller) and not self.in_a_loop:
            raise UsageError(
                "caller is an async function, which WSGI cannot call. Give a plain one."
            )
        if if_unknown not in get_args(IfUnknown):
            raise UsageError(f"if_unknown={if_unknown!r} must be 'refuse' or 'repeat'.")
        if on_failure not in get_args(OnFailure):
            raise UsageError(f"on_failure={on_failure!r} must be 'unknown', 'release' or 'keep'.")
        self.service, self._caller = service, caller
        self._methods = frozenset(method.upper() for method in _listed(methods, "methods"))
        self._under = paths if paths is None or callable(paths) else _prefixes(paths)
        self._required, self._if_unknown = required, if_unknown
        self._on_failure: OnFailure = on_failure
        duration(claim_for, what="claim_for", least=LEAST_CLAIM)
        self._claim_for = claim_for
        self.body_bytes = check_count(body_bytes, what="body_bytes", most=BODY_BYTES_MAX)
        self.response_bytes = check_count(
            response_bytes, what="response_bytes", most=PAYLOAD_BYTES_MAX
        )
        self._content = fingerprint
        self._never = NEVER_REPLAYED | {
            n.lower() for n in _listed(never_replayed, "never_replayed")
        }
        self._inbox = app.inbox(name, keep=keep)
        self._emit = app.events.emit

    def id_of(self, caller: str, key: str) -> str:
        """Return the id under which a caller's key stands in the inbox: for ``resolve``."""
        return f"{caller_name(caller)}/{key}"

    def _concerns(self, method: str, path: str) -> bool:
        if method not in self._methods:
            return False
        under = self._under
        if under is None or callable(under):
            return under is None or bool(under(path))
        return any(path == prefix or path.startswith(f"{prefix}/") for prefix in under)

    def _key(self, header: str | None) -> str | Problem | None:
        """Return the key, what is wrong with it, or None: pass the request on as it is."""
        if header is None:
            return problem.MISSING if self._required else None
        try:
            return read_key(header)
        except UsageError as error:
            return problem.malformed(str(error))

    def _fingerprint(self, request: Request, body: bytes) -> object:
        if self._content is not None:
            return self._content(request, body)
        media = request.headers.get("content-type", "")
        return content(request.method, request.path, request.query, media, body)

    def _claim(
        self, receive: Callable[..., Any], caller: str, key: str, asked: object
    ) -> Steps[Received | AsyncReceived | Problem | Answer]:
        """Claim a key: what was received is new; or say what to answer instead."""
        try:
            received: Received | AsyncReceived = yield Call(
                receive,
                (self.id_of(caller, key),),
                {
                    "fingerprint": asked,
                    "claim_for": self._claim_for,
                    "if_unknown": "repeat" if self._if_unknown == "repeat" else "wait",
                },
            )
        except KeyReused:
            return problem.REUSED
        except InProgress as error:
            return problem.in_progress(error.age_seconds)
        except UnsupportedByStore:
            raise
        except StoreError as error:
            self._emit("store.trouble", doing="claim a request", error=str(error))
            return problem.STORE_AWAY
        match received.state:
            case "new":
                return received
            case "in_progress":
                return problem.in_progress(received.age.total_seconds())
            case "unknown":
                return problem.UNCLEAR
            case "done":
                self._emit("request.replayed", id=received.id)
                kept = of_result(received.result)
                return problem.not_kept(kept.status) if isinstance(kept, NotKept) else kept

    def _settle(
        self, received: Received | AsyncReceived, answer: Answer | NotKept
    ) -> Steps[Problem | None]:
        """Record what a complete answer means for its key; a Problem is told instead of it."""
        match fate(answer.status, self._on_failure):
            case Fate.KEEP:
                if isinstance(answer, Answer):
                    headers = replayable(answer.headers, self._never)
                    answer = Answer(answer.status, headers, answer.body)
                result = as_result(answer, limit=PAYLOAD_BYTES_MAX)
                return (yield from self._recorded(received, Call(received.done, (result,))))
            case Fate.RELEASE:
                return (yield from self._recorded(received, Call(received.give_back)))
            case Fate.UNKNOWN:
                return (yield from self._unclear(received, f"answered with {answer.status}"))

    def _failed(self, received: Received | AsyncReceived, why: str) -> Steps[Problem | None]:
        """Record that a service ended without a complete answer."""
        if self._on_failure == "release":
            return (yield from self._recorded(received, Call(received.give_back)))
        return (yield from self._unclear(received, why))

    def _unclear(self, received: Received | AsyncReceived, why: str) -> Steps[Problem | None]:
        self._emit("request.unknown", id=received.id, why=why)
        return (yield from self._recorded(received, Call(received.unknown, (why,))))

    def _recorded(self, received: Received | AsyncReceived, call: Call) -> Steps[Problem | None]:
        for tries_left in reversed(range(RECORD_TRIES)):
            try:
                yield call
            except LeaseLost:
                self._emit("request.taken_over", id=received.id, token=received.token)
                return problem.TAKEN_OVER
            except StoreError as error:
                # The answer is true all the same. A claim that stays becomes unknown: the safe
                # side, for whoever asks again.
                if not tries_left:
                    self._emit("store.trouble", doing="record a request", error=str(error))
            else:
                break
        return None

    def _told(self, received: Received | AsyncReceived, key: str) -> Claim:
        token = received.token
        assert token is not None, "what is new has a token"
        return Claim(received.id, key, token)


def is_named(caller: object) -> bool:
    """Tell whether it is known who asks."""
    return isinstance(caller, str) and bool(caller.strip())


def _listed(names: object, what: str) -> Iterable[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UsageError(f"{what}={names!r} must be a list of texts.")
    listed = list(names)
    if not all(isinstance(name, str) and name for name in listed):
        raise UsageError(f"{what}={names!r} must be a list of texts.")
    return listed


def _prefixes(paths: object) -> tuple[str, ...]:
    prefixes = tuple(_listed(paths, "paths"))
    if not prefixes or not all(prefix.startswith("/") for prefix in prefixes):
        raise UsageError(f"paths={paths!r} must be whole paths, such as ['/orders'].")
    return tuple(prefix.rstrip("/") for prefix in prefixes)
