"""One worker that dies in the middle of its job, is started again, and does the same job again."""

from __future__ import annotations

from onejob.demo.leash import end_with_input
from onejob.demo.mail import Mailer
from onejob.demo.part import Part
from onejob.demo.stage import Stage


def run(part: Part) -> None:
    """The application: the broker hands over the job, and the worker does it from the start."""
    end_with_input()
    mailer = Mailer(part.provider, part.replica)
    for customer in range(part.customers):
        mailer.send(customer)


def direct(stage: Stage) -> None:
    """Kill the worker somewhere between its first tenth and its last; start it again.

    Without faults it restarts after its work and before its acknowledgement: the same again.
    """
    [part, *_] = stage.parts()
    worker = stage.fleet.start(part)
    if stage.faults:
        with stage.provider.ambush(stage.somewhere(0.1, 0.9)) as ambush:
            worker.tell()
            ambush.wait(stage.patience)
            worker.kill()
    else:
        worker.tell()
        stage.fleet.wait_ended(seconds=stage.patience, what="the worker to be through")
    stage.fleet.start(part).tell()
    stage.fleet.wait_ended(seconds=stage.patience, what="the restarted worker to be through")
