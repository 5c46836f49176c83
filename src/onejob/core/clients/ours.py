"""Our own word for it."""

from __future__ import annotations

from typing import Any, Final

from onejob.core.meaning import Meaning

RULES: Final[dict[str, Any]] = {"onejob.effect.NotSent": lambda error: Meaning.NOT_SENT}
