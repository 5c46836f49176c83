"""A replica that kills itself at one instant of an effect: store, schema, instant, way, provider.

Run as a program. The instants before and after a command are those of the store's own ``run``; the
provider, who is told this process's id, sees to those that are his.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import urllib.request
from typing import Any

from onejob import App, Run

ITEMS = [f"c{n}" for n in range(30)]
CONCURRENCY = 4
REPEAT: dict[str, Any] = {
    "if_unknown": "repeat",
    "pass_key_as": "key",
    "provider_keeps": "24h",
}


def pay(app: App, way: str, provider: str, instant: str = "", pid: int = 0) -> Any:
    """Declare the job ``pay`` as both the victim and its successor have it."""

    def charge(item: str = "order", *, key: str = "") -> str:
        asked = {"item": item, "key": key, "kill": pid if instant == "called" else 0}
        with urllib.request.urlopen(provider, json.dumps(asked).encode(), timeout=30) as reply:
            receipt: str = reply.read().decode()
        if instant == "answered":
            die()
        return receipt

    @app.job()
    def pay(run: Run) -> None:
        if way == "each":
            run.each(ITEMS, charge, key=str, concurrency=CONCURRENCY)
        else:
            run.effect("order", charge, **(REPEAT if way == "repeat" else {}))

    return pay


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, schema: str, instant: str, way: str, provider: str) -> None:
    """Be a replica until that instant."""
    app = App(url, schema=schema, name="shop", lease="60s", single_machine=True)
    pay(app, way, provider, instant, os.getpid())
    many = way == "each"
    claim = "effect_claim_many_in_run" if many else "effect_claim_in_run"
    record = "effect_record_many" if many else "effect_record"
    before = {"before": claim}.get(instant)
    after = {"claimed": claim, "recorded": record}.get(instant)
    store: Any = app.store
    plain = store.run

    def run(command: Any, within: object = None) -> Any:
        if command.name == before:
            die()
        answer = plain(command, within)
        if command.name == after:
            die()
        return answer

    store.run = run
    if instant == "committed":
        app.events.listen(lambda event: die() if event.name == "run.ended" else None)
    app.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
