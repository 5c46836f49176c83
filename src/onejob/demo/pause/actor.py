"""One process of the exercise: it does one step at a time, as it is told, and says how it went.

A line of JSON on standard input is one step, a line on standard output its answer. Whoever freezes
this process can tell it the next step all the same: it reads it when it wakes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any

from onejob.demo.part import Part
from onejob.demo.pause.ways import WAYS
from onejob.errors import OnejobError


def main() -> None:
    """Read what it is, say so, and do as told until the input ends."""
    told = json.loads(sys.argv[1])
    way = WAYS[told["way"]](Part(**told["part"]), told["ttl"])
    _say({"ready": True})
    for line in sys.stdin:
        _say(_done(way, json.loads(line)))
    # Its threads may be anywhere, also in a network that is stalled.
    os._exit(0)


def _done(way: Any, step: dict[str, Any]) -> dict[str, Any]:
    try:
        match step["do"]:
            case "take":
                answer = {"token": way.take(step["wait"])}
            case "write":
                answer = asdict(way.write())
            case "drop":
                way.drop()
                answer = {"dropped": True}
            case other:
                raise ValueError(f"no such step: {other}")
    except OnejobError as error:
        answer = {"refused": error.code, "why": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a driver raises is this process's answer
        answer = {"failed": type(error).__name__, "why": str(error).strip().partition("\n")[0]}
    return {**answer, "at": time.monotonic()}


def _say(words: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
