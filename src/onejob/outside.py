"""Effects outside a run: in a web request, a script, another scheduler's job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from uuid import uuid4

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
from onejob.procedure import perform
from onejob.services import Services, required
from onejob.steps import acarry, carry

T = TypeVar("T")


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
    return ledger.first(scope, key, owner=services.owner, keep=services.keep_effects)


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
    # An owner for each call: whoever finds this name in the ledger is this very call.
    owner = f"{services.owner}/{uuid4().hex}"
    return request(services, scope, key, call, args, kwargs, options, owner=owner)
