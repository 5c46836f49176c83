"""One process of a locks benchmark: takes turns at one lock, or holds many.

``turns URL SCHEMA SECONDS`` or ``holds URL SCHEMA SECONDS LOCKS NUMBER``; waits for a line on stdin
before it begins, prints one JSON document at its end.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any, TypeVar

from onejob import App
from onejob.commands.command import Command

T = TypeVar("T")

LOCK, RESOURCE = "the one lock", "what it protects"
WORK_SECONDS = 0.001


def counted(app: App) -> Counter[str]:
    """Count the commands that an App sends, its renewals included."""
    sent: Counter[str] = Counter()
    # Of the class: a lane may be a store of its own.
    store: Any = type(app.store)
    one = "carry" if hasattr(store, "carry") else "run"
    carry = getattr(store, one)

    def counting(self: Any, command: Command[T], *rest: Any) -> T:
        sent[command.name] += 1
        answer: T = carry(self, command, *rest)
        return answer

    setattr(store, one, counting)
    return sent


def turns(url: str, schema: str, seconds: str) -> dict[str, Any]:
    app = App(url, schema=schema, name="bench")
    sent = counted(app)
    held: list[tuple[float, float, int]] = []
    _wait_for_the_others()
    ends = time.monotonic() + float(seconds)
    while time.monotonic() < ends:
        with app.lock(LOCK, ttl="5s", wait="60s") as lease:
            began = time.monotonic()
            store: Any = app.store
            if not url.startswith("redis"):
                with store.transaction(longest=5_000_000) as connection:
                    app.fence(RESOURCE, lease.token, within=connection)
            time.sleep(WORK_SECONDS)
            lease.check()
            held.append((began, time.monotonic(), lease.token))
    app.close()
    return {"held": held, "asked": sent["lease_acquire"]}


def holds(url: str, schema: str, seconds: str, locks: str, number: str) -> dict[str, Any]:
    app = App(url, schema=schema, name="bench")
    sent = counted(app)
    with ExitStack() as stack:
        leases = [
            stack.enter_context(app.lock(f"{number}/{n}", ttl="6s")) for n in range(int(locks))
        ]
        _wait_for_the_others()
        before = sent.copy()
        time.sleep(float(seconds))
        renewals = sent - before
        lost = sum(lease.lost for lease in leases)
    app.close()
    return {"renewals": renewals.total(), "lost": lost}


def _wait_for_the_others() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    mode, *arguments = sys.argv[1:]
    print(json.dumps({"turns": turns, "holds": holds}[mode](*arguments)), flush=True)
