"""What every program here does when its job runs: one line, written at once."""

import os
import time

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


def app():
    """Return the App that guards, with the shortest lease there is unless LEASE says another."""
    from onejob import App

    return App(URL, schema=SCHEMA, lease=os.environ.get("LEASE", "1s"))
