"""Keys derived from names: stable over attempts, restarts, releases and machines.

What a provider, or a schedule's history, was once given must be derived again to the letter for
years. The tests hold golden vectors; a change here is a change of everybody's keys.
"""

from __future__ import annotations

from hashlib import sha256

from onejob.core.time import Instant, text


def provider_key(app: str, scope: str, key: str) -> str:
    """Derive the idempotency key that a provider is given for the effect (app, scope, key).

    Printable ASCII of 35 characters: ``oj-`` and 128 bits in hex, within every provider's limit.
    Each part goes in with its length, so ("a", "bc") and ("ab", "c") differ.
    """
    digest = sha256()
    for part in (app, scope, key):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return f"oj-{digest.hexdigest()[:32]}"


def fire_key(schedule: str, at: Instant) -> str:
    """Name the run of one fire time: ``nightly@2026-03-29T01:00:00Z``."""
    return f"{schedule}@{text(at)}"
