"""What users say about an effect outside the database, checked before any I/O.

``procedure`` carries it out. The words that a resolver answers with, and the errors, are here as
well; a person's own word on an effect that nobody else can settle is in ``effects``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from inspect import Signature as PythonSignature
from inspect import iscoroutinefunction, signature
from typing import Any, Final, Literal, TypeAlias

from onejob.commands import ledger
from onejob.core.effect import Entry, IfUnknown, Policy
from onejob.core.keys import provider_key
from onejob.core.names import NAME_BYTES_MAX, check_name
from onejob.core.payload import Signature
from onejob.core.payload import fingerprint as fingerprint_of
from onejob.core.run import Claim
from onejob.core.time import SECOND, Duration, Span, duration
from onejob.errors import OnejobError, UsageError
from onejob.services import Services
from onejob.steps import Call, Steps


class NotSent(Exception):
    """Raise it in a call that certainly reached nobody: the claim is released.

    ``raise NotSent("no route") from error``. Refused connections and names that do not resolve
    count as not sent by themselves.
    """


class EffectFailed(OnejobError):
    """The provider refused this effect for good; it was recorded, and nobody was called again."""

    code = "effect_failed"

    def __init__(self, scope: str, key: str, reason: str) -> None:
        self.scope, self.key, self.reason = scope, key, reason
        super().__init__(
            f"effect {key!r} in {scope!r} was refused for good: {reason}. Nothing was called. To "
            f"try it again: onejob effects resolve {scope!r} {key!r} redo"
        )


@dataclass(frozen=True, slots=True)
class Effect:
    """What a resolver is told: which effect, its provider's key, when it was claimed first."""

    scope: str
    key: str
    provider_key: str
    claimed_at: datetime
    attempt: int


@dataclass(frozen=True, slots=True)
class Done:
    """The provider says that it happened; ``result`` is recorded and returned."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Redo:
    """The provider says that it did not happen: call again."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The provider refused it for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The provider cannot say."""


Resolution: TypeAlias = Done | Redo | Failed | Unknown
Resolver: TypeAlias = Callable[[Effect], Any]
"""Returns a Resolution; under ``AsyncRun`` it may be async."""

NO_SPAN: Final = Span(0)

#: Of scope and key together, in UTF-8: a row of PostgreSQL's index holds 2,704, with their kind.
EFFECT_BYTES_MAX: Final = 2_500

IfUnknownOption: TypeAlias = Literal["raise", "repeat"] | Resolver
FinalErrors: TypeAlias = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How an effect is to be treated, as the caller wrote it."""

    if_unknown: IfUnknownOption
    pass_key_as: str | None
    fingerprint: object
    provider_keeps: Duration | None
    final: FinalErrors
    claim_for: Span = NO_SPAN


@dataclass(frozen=True, slots=True)
class Request:
    """One effect that passed every check: what to call, under which name and policy."""

    entry: ledger.NewEntry
    call: Call
    policy: Policy
    resolver: Resolver | None
    final: tuple[type[Exception], ...]
    results: Signature
    provider_key: str
    keep: Span
    run: Claim | None

    @property
    def scope(self) -> str:
        """Return the scope in which the key is unique."""
        return self.entry.scope

    @property
    def key(self) -> str:
        """Return the effect's key."""
        return self.entry.key

    def encode(self, value: object) -> str | None:
        """Return a result as JSON: by the call's hint, or plain where the hint says otherwise."""
        try:
            return self.results.encode_result(value)
        except UsageError:
            return PLAIN.encode_result(value)

    def decode(self, text: str | None) -> Any:
        """Read a result back; one that does not fit the hint (a person's, an older release's)
        comes as it was recorded."""
        try:
            return self.results.decode_result(text)
        except UsageError:
            return PLAIN.decode_result(text)

    def refuse_async(self) -> None:
        """Refuse what only a loop could call."""
        if iscoroutinefunction(self.call.function) or iscoroutinefunction(self.resolver):
            raise UsageError(
                f"effect {self.key!r} got an async function in sync code. Give a plain function, "
                "or make the handler async and annotate AsyncRun."
            )


def check_effect(scope: str, key: str, *, what: str = "effect key") -> None:
    """Raise UsageError where no store could hold an entry of this name.

    A scope is a name, or ``job/run key``, each of which may be as long as a name.
    """
    job, divided, run_key = scope.partition("/") if isinstance(scope, str) else ("", "", "")
    if divided and len(scope.encode(errors="replace")) > NAME_BYTES_MAX:
        check_name(job, what="the job of an effect's scope")
        check_name(run_key, what="the run's key of an effect's scope")
    else:
        check_name(scope, what="effect scope")
    check_name(key, what=what)
    size = len(scope.encode()) + len(key.encode())
    if size > EFFECT_BYTES_MAX:
        raise UsageError(
            f"{what} and scope are {size:,} bytes of UTF-8 together, the limit is "
            f"{EFFECT_BYTES_MAX:,}. Use a shorter {what}, or a hash of it."
        )


def refuse_called(scope: str, key: str) -> Steps[None]:
    """Raise UsageError where ``key`` is an effect's: it says nothing about first()'s work."""
    found: tuple[Entry, ...] = yield ledger.read(scope, [key])
    if found and found[0].token:  # one that first() made was never claimed
        raise UsageError(
            f"key {key!r} in {scope!r} was used with effect(), so it cannot say whether what "
            "first() guards was done. Give first() a key of its own."
        )


def request(
    services: Services,
    scope: str,
    key: str,
    call: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    owner: str,
    run: Claim | None = None,
) -> Request:
    """Check everything about an effect, before any I/O."""
    check_effect(scope, key)
    name = provider_key(services.app, scope, key)
    if options.pass_key_as is not None:
        if options.pass_key_as in kwargs:
            raise UsageError(
                f"pass_key_as={options.pass_key_as!r} is among the arguments too. Leave it to "
                "onejob: the provider's key must be the same in every attempt."
            )
        kwargs = {**kwargs, options.pass_key_as: name}
    results = results_of(call, f"effect {key!r}", args, kwargs)
    policy, resolver = policy_of(options)
    content = "" if options.fingerprint is None else fingerprint_of(options.fingerprint)
    final = final_types(options.final)
    entry = ledger.NewEntry(scope, key, owner, content, options.claim_for)
    asked = Call(call, args, kwargs)
    return Request(entry, asked, policy, resolver, final, results, name, services.keep_effects, run)


def final_types(final: FinalErrors) -> tuple[type[Exception], ...]:
    """Return the errors that are final, as a tuple."""
    types = final if isinstance(final, tuple) else (final,)
    for each in types:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise UsageError(f"final={final!r} must be exception types: final=(Declined,).")
    return types


def results_of(
    call: object, what: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Signature:
    """Check that the call can take its arguments; return how its result is written and read."""
    if not callable(call):
        raise UsageError(
            f"{what} needs a function to call, not {type(call).__name__}. Give the "
            "function and its arguments apart: effect(key, send, user), not "
            "effect(key, send(user))."
        )

    def result() -> None:
        """Stand in for the call, with nothing but its result's hint."""

    try:
        given = signature(call)
    except (TypeError, ValueError):  # some of C's functions do not say what they take
        return PLAIN
    try:
        given.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"{what}: its call cannot take this: {error}.") from None
    hint = PythonSignature(return_annotation=given.return_annotation)
    vars(result).update(__signature__=hint, __wrapped__=call)
    typed = Signature.of(result, name=what)
    try:
        typed.check()
    except UsageError:
        # A hint that has no JSON form says nothing about the value: it may be None, or plain.
        return PLAIN
    return typed


def _plain():  # type: ignore[no-untyped-def]  # without a hint, results are read as they are
    """Stand in for a call that does not say what it returns."""


PLAIN: Final = Signature.of(_plain, name="effect")


def policy_of(options: Options) -> tuple[Policy, Resolver | None]:
    """Return how an unknown outcome is settled, and whom to ask."""
    keeps = Span(0)
    if options.provider_keeps is not None:
        keeps = duration(options.provider_keeps, what="provider_keeps", least=SECOND)
    match options.if_unknown:
        case "raise":
            return Policy(IfUnknown.RAISE, keeps), None
        case "repeat" if options.pass_key_as and keeps:
            return Policy(IfUnknown.REPEAT, keeps), None
        case "repeat":
            raise UsageError(
                "if_unknown='repeat' is safe only where the provider knows the effect's key. Say "
                "how the call takes it, and how long the provider remembers it: "
                "pass_key_as='idempotency_key', provider_keeps='24h'."
            )
        case resolver if callable(resolver):
            return Policy(IfUnknown.ASK, keeps), resolver
        case other:
            raise UsageError(
                f"if_unknown={other!r} must be 'raise', 'repeat', or a function that asks the "
                "provider and returns Done(result), Redo(), Failed(reason) or Unknown()."
            )
