"""onejob makes a background job take effect once, however many replicas fire it or crash in it.

The names below are the public ones; each is imported when it is first used, so that ``import
onejob`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onejob.advisory import advisory_key, atransaction_lock, transaction_lock
    from onejob.app import App
    from onejob.core.each import EachResult, SetAside
    from onejob.core.retry import Cancel, Retry, RetryLater
    from onejob.core.violation import Explanation
    from onejob.duplicate import duplicate_ok
    from onejob.effect import (
        Done,
        Effect,
        EffectFailed,
        Failed,
        NotSent,
        Redo,
        Unknown,
    )
    from onejob.effects import EffectInfo
    from onejob.errors import (
        EffectUnknown,
        InProgress,
        ItemsSetAside,
        KeyReused,
        LeaseLost,
        NotAcquired,
        OnejobError,
        OutcomeUnknown,
        Refused,
        SchemaMismatch,
        StaleToken,
        StoreError,
        StoreUnavailable,
        UnsupportedByStore,
        UsageError,
    )
    from onejob.explaining import explain
    from onejob.inbox.messages import Inbox, MessageInfo
    from onejob.job import Job
    from onejob.lease import AsyncLease, Lease, assert_locked
    from onejob.lock import Lock
    from onejob.locks import LockInfo
    from onejob.period import SKIPPED
    from onejob.queue import Enqueued, RunInfo
    from onejob.queues import QueueInfo
    from onejob.run import AsyncRun, Run, current_run
    from onejob.schedules import ScheduleInfo
    from onejob.serving import Status

__all__ = [
    "SKIPPED",
    "App",
    "AsyncLease",
    "AsyncRun",
    "Cancel",
    "Done",
    "EachResult",
    "Effect",
    "EffectFailed",
    "EffectInfo",
    "EffectUnknown",
    "Enqueued",
    "Explanation",
    "Failed",
    "InProgress",
    "Inbox",
    "ItemsSetAside",
    "Job",
    "KeyReused",
    "Lease",
    "LeaseLost",
    "Lock",
    "LockInfo",
    "MessageInfo",
    "NotAcquired",
    "NotSent",
    "OnejobError",
    "OutcomeUnknown",
    "QueueInfo",
    "Redo",
    "Refused",
    "Retry",
    "RetryLater",
    "Run",
    "RunInfo",
    "ScheduleInfo",
    "SchemaMismatch",
    "SetAside",
    "StaleToken",
    "Status",
    "StoreError",
    "StoreUnavailable",
    "Unknown",
    "UnsupportedByStore",
    "UsageError",
    "advisory_key",
    "assert_locked",
    "atransaction_lock",
    "current_run",
    "duplicate_ok",
    "explain",
    "transaction_lock",
]

_HOMES = {
    "onejob.advisory": ("advisory_key", "atransaction_lock", "transaction_lock"),
    "onejob.app": ("App",),
    "onejob.core.each": ("EachResult", "SetAside"),
    "onejob.core.retry": ("Cancel", "Retry", "RetryLater"),
    "onejob.core.violation": ("Explanation",),
    "onejob.duplicate": ("duplicate_ok",),
    "onejob.effect": (
        "Done",
        "Effect",
        "EffectFailed",
        "Failed",
        "NotSent",
        "Redo",
        "Unknown",
    ),
    "onejob.effects": ("EffectInfo",),
    "onejob.errors": (
        "EffectUnknown",
        "InProgress",
        "ItemsSetAside",
        "KeyReused",
        "LeaseLost",
        "NotAcquired",
        "OnejobError",
        "OutcomeUnknown",
        "Refused",
        "SchemaMismatch",
        "StaleToken",
        "StoreError",
        "StoreUnavailable",
        "UnsupportedByStore",
        "UsageError",
    ),
    "onejob.explaining": ("explain",),
    "onejob.inbox": ("Inbox", "MessageInfo"),
    "onejob.job": ("Job",),
    "onejob.lease": ("AsyncLease", "Lease", "assert_locked"),
    "onejob.lock": ("Lock",),
    "onejob.locks": ("LockInfo",),
    "onejob.period": ("SKIPPED",),
    "onejob.queue": ("Enqueued", "RunInfo"),
    "onejob.queues": ("QueueInfo",),
    "onejob.run": ("AsyncRun", "Run", "current_run"),
    "onejob.schedules": ("ScheduleInfo",),
    "onejob.serving": ("Status",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'onejob' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
