"""Effects outside a run: in a web request, a script, another scheduler's job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any, Final, TypeVar

from onejob.commands import ledger
from onejob.commands.command import Command
from onejob.core.names import check_name
from onejob.core.time import SECOND, Duration, duration
from onejob.effect import (
    FinalErrors,
    IfUnknownOption,
    Options,
    Request,
    request,
)
from onejob.errors import UsageError
from onejob.procedure import perform
from onejob.services import Services, required
from onejob.steps import acarry, carry

T = TypeVar("T")

#: Keys that one statement inserts.
FIRST_MOST: Final = 10_000


class Outside:
    """``app.first`` and ``app.effect``: unique in a scope of yours, over all runs and processes.

    A scope ``job/run key`` is that run's own: what is claimed in it here is known to the run.
    """

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def first(self, scope: str, key: str, *, within: object) -> bool:
        """Tell whether this is the first time for ``key`` in ``scope``, in your transaction.

        True: go on, and commit. False: it has been done. Waits for another transaction that asks
        the same; if that one rolls back, this one is first. Costs one statement, so it does not
        look whether an effect has used this key: give the two keys of their own.
        """
        services = self._services()
        answer: bool = services.run(required(within))(_first(scope, key, services))
        return answer

    async def afirst(self, scope: str, key: str, *, within: object) -> bool:
        """The same in a loop."""
        services = self._services()
        answer: bool = await services.arun(required(within))(_first(scope, key, services))
        return answer

    def first_many(self, scope: str, keys: Iterable[str], *, within: object) -> list[str]:
        """Tell which of many keys are first, in your transaction: each once, in your order.

        One statement for every 10,000 keys. Two transactions with overlapping keys wait for each
        other and can't deadlock, as long as each calls this once.
        """
        services = self._services()
        asked = _listed(scope, keys)
        run = services.run(required(within))
        first: set[str] = set()
        for command in _first_many(scope, asked, services):
            first |= run(command)
        return [key for key in asked if key in first]

    async def afirst_many(self, scope: str, keys: Iterable[str], *, within: object) -> list[str]:
        """The same in a loop."""
        services = self._services()
        asked = _listed(scope, keys)
        run = services.arun(required(within))
        first: set[str] = set()
        for command in _first_many(scope, asked, services):
            first |= await run(command)
        return [key for key in asked if key in first]

    def effect(
        self,
        scope: str,
        key: str,
        call: Callable[..., T],
        /,
        *args: Any,
        claim_for: Duration = "10m",
        if_unknown: IfUnknownOption = "raise",
        pass_key_as: str | None = None,
        fingerprint: object = None,
        provider_keeps: Duration | None = None,
        final: FinalErrors = (),
        **kwargs: Any,
    ) -> T:
        """Call something outside once over all runs and processes; see ``Run.effect``.

        ``claim_for`` is how long the call may take: after that its outcome counts as unknown.
        """
        options = Options(
            if_unknown=if_unknown,
            pass_key_as=pass_key_as,
            fingerprint=fingerprint,
            provider_keeps=provider_keeps,
            final=final,
            claim_for=duration(claim_for, what="claim_for", least=SECOND),
        )
        services = self._services()
        asked = _request(services, scope, key, call, args, kwargs, options)
        asked.refuse_async()
        result: T = carry(perform(asked, services.events), services.run())
        return result

    async def aeffect(
        self,
        scope: str,
        key: str,
        call: Callable[..., Any],
        /,
        *args: Any,
        claim_for: Duration = "10m",
        if_unknown: IfUnknownOption = "raise",
        pass_key_as: str | None = None,
        fingerprint: object = None,
        provider_keeps: Duration | None = None,
        final: FinalErrors = (),
        **kwargs: Any,
    ) -> Any:
        """The same in a loop."""
        options = Options(
            if_unknown=if_unknown,
            pass_key_as=pass_key_as,
            fingerprint=fingerprint,
            provider_keeps=provider_keeps,
            final=final,
            claim_for=duration(claim_for, what="claim_for", least=SECOND),
        )
        services = self._services()
        asked = _request(services, scope, key, call, args, kwargs, options)
        steps = perform(asked, services.events)
        return await acarry(steps, services.arun(), late=services.run())


def _first(scope: str, key: str, services: Services) -> Command[bool]:
    check_name(scope, what="scope")
    check_name(key, what="key")
    return ledger.first(scope, key, owner=own_name(services), keep=services.keep_effects)


def own_name(services: Services) -> str:
    """Return a name for one call: whoever finds it in the ledger is this very call."""
    return f"{services.owner}/{token_hex(16)}"


def _listed(scope: str, keys: Iterable[str]) -> list[str]:
    """Return the keys, each once; UsageError before any I/O."""
    check_name(scope, what="scope")
    given: object = keys
    if isinstance(given, str):
        raise UsageError(f"keys={given!r} is one text. Give a list of keys, or call first().")
    return list(dict.fromkeys(check_name(key, what="key") for key in keys))


def _first_many(
    scope: str, keys: Sequence[str], services: Services
) -> Iterator[Command[frozenset[str]]]:
    # In order over all the statements too: no two transactions then wait in a circle.
    ordered, owner = sorted(keys), own_name(services)
    for start in range(0, len(ordered), FIRST_MOST):
        part = ordered[start : start + FIRST_MOST]
        yield ledger.first_many(scope, part, owner=owner, keep=services.keep_effects)


def _request(
    services: Services,
    scope: str,
    key: str,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Options,
) -> Request:
    check_name(scope, what="effect scope")
    owner = own_name(services)
    return request(services, scope, key, call, args, kwargs, options, owner=owner)
