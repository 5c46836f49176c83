"""Every error onejob raises, and what a caller does about each family.

::

    OnejobError
    ├── UsageError (also ValueError)   fix the call; raised before any I/O, nothing was written
    ├── StoreError                     the store gave no clear answer
    │   ├── StoreUnavailable           it could not be reached; nothing was sent
    │   ├── OutcomeUnknown             the request was sent, the reply is missing
    │   ├── SchemaMismatch             reachable, but its tables are missing, older or newer
    │   └── UnsupportedByStore         this store cannot do that, at any time
    ├── Refused                        the guard said no; nothing was written
    │   ├── NotAcquired                somebody else holds it
    │   ├── LeaseLost                  this attempt, or lock, is no longer ours
    │   ├── StaleToken                 a higher fencing token is known
    │   ├── KeyReused                  the same key, with other content
    │   └── InProgress                 the same key is being worked on now
    ├── EffectUnknown                  an effect may have happened; a person or a policy must say
    └── ItemsSetAside                  a loop over many items could not do some of them

Three words are kept apart everywhere: *refused* (the guard said no), *lost* (the lease is gone)
and *unknown* (the reply is missing). Each error has a stable ``code``, fields for what was asked
and found, and a message that ends with what to do next.
"""

from __future__ import annotations

from datetime import datetime


class OnejobError(Exception):
    """The root: catch it to catch everything that onejob raises on purpose."""

    code = "onejob"


class UsageError(OnejobError, ValueError):
    """The call cannot be right. Raised before any I/O: nothing was read and nothing written."""

    code = "usage"


class StoreError(OnejobError):
    """The store gave no clear answer."""

    code = "store"


class StoreUnavailable(StoreError):
    """The store could not be reached, so nothing was sent to it. Safe to try again.

    ``where`` is the host and database (never the password).
    """

    code = "store_unavailable"

    def __init__(self, where: str, why: str, *, advice: str = "") -> None:
        self.where, self.why = where, why
        advice = advice or "Check that it runs and that the URL is right, then try again."
        super().__init__(f"cannot reach the store at {where}: {why}. {advice}")


class OutcomeUnknown(StoreError):
    """The request was sent and the reply is missing: it may or may not have been carried out.

    ``command`` names what was asked. Look before you repeat: the same key makes repeating safe.
    """

    code = "outcome_unknown"

    def __init__(self, command: str, where: str, why: str) -> None:
        self.command, self.where, self.why = command, where, why
        super().__init__(
            f"no reply from {where} to {command!r}: {why}. It may have been carried out; "
            "read the state before you repeat it, or repeat it with the same key."
        )


class SchemaMismatch(StoreError):
    """The tables are missing, older or newer than this version of onejob.

    ``found`` is None where there are no tables at all. ``init`` is what to run, "" where nothing
    that could be run helps.
    """

    code = "schema_mismatch"

    def __init__(
        self, where: str, *, found: int | None, wanted: int, init: str = "onejob init"
    ) -> None:
        self.where, self.found, self.wanted = where, found, wanted
        self.init = init if found is None or found < wanted else ""
        if found is None:
            text = f"no onejob tables at {where}. Run: {init}"
        elif found < wanted:
            text = (
                f"the onejob tables at {where} are at version {found}, this release needs "
                f"{wanted}. Run: {init}"
            )
        else:
            text = (
                f"the onejob tables at {where} are at version {found}, newer than the {wanted} "
                "that this release knows. Upgrade onejob here; do not downgrade the tables."
            )
        super().__init__(text)


class UnsupportedByStore(StoreError):
    """This store cannot do what was asked, at any time."""

    code = "unsupported_by_store"

    def __init__(self, what: str, store: str, *, instead: str) -> None:
        self.what, self.store, self.instead = what, store, instead
        super().__init__(f"{store} cannot {what}. {instead}")


class Refused(OnejobError):
    """The guard said no. Nothing was written, and nothing is broken."""

    code = "refused"


class NotAcquired(Refused):
    """Somebody else holds it.

    ``holder`` says who, ``since`` and ``until`` when (``until`` moves on while they renew); "" and
    None where that is not known, and ``why`` says what is.
    """

    code = "not_acquired"

    def __init__(
        self,
        what: str,
        *,
        holder: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        why: str = "",
    ) -> None:
        self.what, self.holder, self.since, self.until, self.why = what, holder, since, until, why
        text = f"{what} is taken"
        if since is not None and until is not None:
            text += f": by {holder} since {since:%Y-%m-%d %H:%M:%S} UTC"
            text += f", until {until:%H:%M:%S} unless it is renewed" if not why else ""
        text += f": {why}" if why else ""
        super().__init__(f"{text}. Nothing was done; try again later, or wait longer for it.")


class LeaseLost(Refused):
    """This attempt (or lock) is no longer ours: stop, and let the present holder work.

    ``what`` names the run or lock, ``token`` is the fencing token that we held.
    """

    code = "lease_lost"

    def __init__(self, what: str, *, token: int, why: str) -> None:
        self.what, self.token, self.why = what, token, why
        super().__init__(
            f"{what} is no longer held under token {token}: {why}. Stop this attempt; "
            "whatever it still writes is refused."
        )


class StaleToken(Refused):
    """A higher fencing token is known: another holder has taken over."""

    code = "stale_token"

    def __init__(self, what: str, *, mine: int, current: int) -> None:
        self.what, self.mine, self.current = what, mine, current
        super().__init__(
            f"stale token {mine} for {what}; the present holder has {current}. Stop this attempt."
        )


class KeyReused(Refused):
    """The same key came with other content. Nothing was executed and no result is returned."""

    code = "key_reused"

    def __init__(self, scope: str, key: str) -> None:
        self.scope, self.key = scope, key
        super().__init__(
            f"key {key!r} in {scope!r} was used before with other content (another fingerprint). "
            "Use a key of its own for each different piece of work."
        )


class InProgress(Refused):
    """The same key is being worked on at this moment."""

    code = "in_progress"

    def __init__(self, scope: str, key: str, *, age_seconds: float) -> None:
        self.scope, self.key, self.age_seconds = scope, key, age_seconds
        super().__init__(
            f"key {key!r} in {scope!r} has been in progress for {age_seconds:.1f} s. "
            "Try again later; do not start it beside itself."
        )


class EffectUnknown(OnejobError):
    """The effect may have happened: it was claimed and its outcome was never recorded.

    ``provider_key`` is what the provider was (or would have been) given.
    """

    code = "effect_unknown"

    def __init__(self, scope: str, key: str, *, provider_key: str, why: str) -> None:
        self.scope, self.key, self.provider_key, self.why = scope, key, provider_key, why
        super().__init__(
            f"nobody knows whether effect {key!r} in {scope!r} happened: {why}. Look it up at the "
            f"provider (its key: {provider_key}), then say which: "
            f"onejob effects resolve {scope!r} {key!r} done|redo|failed"
        )


class ItemsSetAside(OnejobError):
    """A loop over many items went through all of them and could not do some.

    ``result`` counts and names them, where the loop itself raised this. The run's retry policy
    decides what follows; its next attempt skips what is done.
    """

    code = "items_set_aside"

    def __init__(self, why: str, result: object = None) -> None:
        self.why, self.result = why, result
        super().__init__(f"{why}. The run's next attempt skips what is done.")
