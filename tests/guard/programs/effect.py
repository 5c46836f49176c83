"""What every program here does when its job runs: one line, written at once."""

import os
import time
from pathlib import Path

URL = os.environ["GUARD_URL"]
SCHEMA = os.environ["GUARD_SCHEMA"]
GUARDED = os.environ["GUARD_ON"] == "1"
NUMBER = int(os.environ["GUARD_NUMBER"])


def effect(what: str = "tick", seconds: float = 0.0) -> None:
    """Write who did it and when, then take some time."""
    line = f"{os.getpid()} {time.time()} {what}\n"
    place = os.open(os.environ["GUARD_EFFECTS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(place, line.encode())
    os.close(place)
    time.sleep(seconds)


def wait_for(count: int, what: str) -> None:
    """Wait until so many processes have said something."""
    while Path(os.environ["GUARD_EFFECTS"]).read_text().count(f" {what}\n") < count:
        time.sleep(0.02)


def stall() -> None:
    """Let this process win its next fire time, and never begin it."""
    from onejob.guards import Guard

    begins = Guard.begin

    def begin(guard: object, permit: object, **options: object) -> bool:
        if permit.tick.spacing:
            return begins(guard, permit, **options)
        effect(f"stalled {permit.tick.key}")
        time.sleep(3_600)
        return False

    Guard.begin = begin


def app():
    """Return the App that guards, with the shortest lease there is unless LEASE says another."""
    from onejob import App

    return App(URL, schema=SCHEMA, lease=os.environ.get("LEASE", "1s"))
