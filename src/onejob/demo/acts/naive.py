"""Three web replicas, each with a timer of its own: what everybody starts with."""

from __future__ import annotations

import time

from onejob.demo.leash import end_with_input
from onejob.demo.mail import Mailer
from onejob.demo.part import Part
from onejob.demo.stage import Stage

#: From the word to go to the timers' hour.
UNTIL_TWO_O_CLOCK_SECONDS = 0.2


def run(part: Part, *, fire_at: float) -> None:
    """The application: at the hour, send the digest to every customer."""
    end_with_input()
    mailer = Mailer(part.provider, part.replica)
    time.sleep(max(0.0, fire_at - time.time()))
    for customer in range(part.customers):
        mailer.send(customer)


def direct(stage: Stage) -> None:
    """Start them, let the hour come, wait until each is through."""
    replicas = stage.fleet.start_all(stage.parts())
    fire_at = time.time() + UNTIL_TWO_O_CLOCK_SECONDS
    for replica in replicas:
        replica.tell(fire_at=fire_at)
    stage.fleet.wait_ended(seconds=stage.patience, what="every replica's timer to be through")
