"""What users say of a loop over many items (``run.each``), checked before any I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4

from onejob.commands import ledger
from onejob.core.effect import Policy, claimant
from onejob.core.keys import provider_key
from onejob.core.payload import Signature
from onejob.core.payload import fingerprint as fingerprint_of
from onejob.core.run import Claim
from onejob.core.time import Span
from onejob.effect import (
    Options,
    Request,
    Resolver,
    check_effect,
    final_types,
    policy_of,
    results_of,
)
from onejob.errors import UsageError
from onejob.services import Services
from onejob.steps import Call

OnError: TypeAlias = Literal["set-aside", "retry", "raise"]

#: Calls at once: each has a thread in a sync handler.
CONCURRENCY_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that passed every check: what to call, for which keys, under which policy."""

    call: Callable[..., Any]
    key_of: Callable[[Any], str]
    fingerprint_of: Callable[[Any], object] | None
    concurrency: int
    on_error: OnError
    pass_key_as: str | None
    policy: Policy
    resolver: Resolver | None
    final: tuple[type[Exception], ...]
    results: Signature
    scope: str
    owner: str
    claim: Claim
    app: str
    keep: Span
    total: int | None

    @property
    def is_async(self) -> bool:
        """Tell whether the call is to be awaited, and not to be given a thread."""
        return iscoroutinefunction(self.call)

    def refuse_async(self) -> None:
        """Refuse what only a loop could call."""
        if self.is_async or iscoroutinefunction(self.resolver):
            raise UsageError(
                "each got an async function in sync code. Give a plain function, or make the "
                "handler async and annotate AsyncRun."
            )

    def named(self, item: Any) -> str:
        """Return the item's key; raises UsageError where it is none."""
        key = self.key_of(item)
        check_effect(self.scope, key, what="an item's key")
        return key

    def content(self, item: Any) -> str:
        """Return the fingerprint of the item's content, "" where it is not compared."""
        return "" if self.fingerprint_of is None else fingerprint_of(self.fingerprint_of(item))

    def arguments(self, item: Any, key: str) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return what the call gets for an item."""
        if self.pass_key_as is None:
            return (item,), {}
        return (item,), {self.pass_key_as: provider_key(self.app, self.scope, key)}

    def encoded(self, value: Any) -> str | None:
        """Return a result as JSON; None where it has none: it has happened all the same."""
        try:
            return self.results.encode_result(value)
        except UsageError:
            return None

    def request(self, item: Any, key: str) -> Request:
        """Return the item's effect as one by itself, for what a batch cannot settle."""
        args, kwargs = self.arguments(item, key)
        owner = claimant(f"{self.claim.replica}/{self.claim.token}", uuid4().hex[:12])
        return Request(
            entry=ledger.NewEntry(self.scope, key, owner, self.content(item)),
            call=Call(self.call, args, kwargs),
            policy=self.policy,
            resolver=self.resolver,
            final=self.final,
            results=self.results,
            provider_key=provider_key(self.app, self.scope, key),
            keep=self.keep,
            run=self.claim,
        )


def loop(
    services: Services,
    items: object,
    call: Callable[..., Any],
    *,
    key: Callable[[Any], str],
    concurrency: int,
    on_error: OnError,
    transaction: bool,
    options: Options,
    scope: str,
    claim: Claim,
) -> Loop:
    """Check everything about a loop, before any I/O."""
    if not callable(key):
        raise UsageError(
            f"key={key!r} must be a function from an item to its key: key=lambda user: user.email. "
            "A key names the same item in every attempt."
        )
    if type(concurrency) is not int or not 1 <= concurrency <= CONCURRENCY_MAX:
        raise UsageError(
            f"concurrency={concurrency!r} must be a whole number from 1 to {CONCURRENCY_MAX:,}: "
            "how many items are called at once."
        )
    if on_error not in ("set-aside", "retry", "raise"):
        raise UsageError(
            f"on_error={on_error!r} must be 'set-aside' (the run's end says what), 'retry' (in the "
            "run's next attempt) or 'raise' (at once)."
        )
    if not (hasattr(items, "__iter__") or hasattr(items, "__aiter__")):
        raise UsageError(f"items={items!r} must be something to iterate over.")
    if options.fingerprint is not None and not callable(options.fingerprint):
        raise UsageError("fingerprint= must be a function from an item to its content.")
    if transaction:
        _refuse_outside(options)
    keyed = {} if options.pass_key_as is None else {options.pass_key_as: ""}
    example = (object(), object()) if transaction else (object(),)
    policy, resolver = policy_of(options)
    return Loop(
        call=call,
        key_of=key,
        fingerprint_of=options.fingerprint,
        concurrency=concurrency,
        on_error=on_error,
        pass_key_as=options.pass_key_as,
        policy=policy,
        resolver=resolver,
        final=final_types(options.final),
        results=results_of(call, "each", example, keyed),
        scope=scope,
        owner=claimant(f"{claim.replica}/{claim.token}", uuid4().hex[:12]),
        claim=claim,
        app=services.app,
        keep=services.keep_effects,
        total=len(items) if isinstance(items, Sized) else None,
    )


def _refuse_outside(options: Options) -> None:
    """Refuse what is about a provider, where there is none: the effect is in the transaction."""
    given: dict[str, object] = {
        "pass_key_as": options.pass_key_as,
        "provider_keeps": options.provider_keeps,
        "fingerprint": options.fingerprint,
        "final": options.final or None,
        "if_unknown": None if options.if_unknown == "raise" else options.if_unknown,
    }
    if wrong := [name for name, value in given.items() if value is not None]:
        raise UsageError(
            f"{', '.join(wrong)} and transaction=True do not go together: what happens in the "
            "transaction is never unknown."
        )
