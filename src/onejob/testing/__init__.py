"""What tests of onejob, and of stores and applications that build on it, are made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onejob.testing.enqueued import EnqueuedRun
    from onejob.testing.inside import Inline, inline

__all__ = ["EnqueuedRun", "Inline", "inline"]


def __getattr__(name: str) -> Any:
    # pytest imports this package at every start, also where no test asks for anything of it.
    if name == "EnqueuedRun":
        from onejob.testing.enqueued import EnqueuedRun

        return EnqueuedRun
    if name in ("Inline", "inline"):
        from onejob.testing import inside

        return getattr(inside, name)
    raise AttributeError(f"module 'onejob.testing' has no attribute {name!r}")
