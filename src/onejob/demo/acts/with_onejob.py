"""The same night with onejob: three replicas, each with a scheduler and a worker of its own.

The application is the one of the README's first screen. One replica is killed while it runs the
job, the one that takes over is frozen past its lease and thawed while a third one is sending.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from onejob import App, Run
from onejob.commands import views
from onejob.core.time import HOUR, instant
from onejob.demo.leash import wait_for_input_to_end
from onejob.demo.mail import Mailer
from onejob.demo.part import Part
from onejob.demo.patience import Stuck, until
from onejob.demo.stage import Stage

if TYPE_CHECKING:
    from onejob.demo.place import AnyStore

LEASE = "2s"

#: From the word to go to the fire time, in seconds. A schedule starts with its first deploy: on a
#: machine so busy that no replica is up by then, all of them are started anew, with more time.
UNTIL_FIRE_TIME = (2, 10, 40)

#: How long a thawed replica may take to notice and to come back under another id.
RETURN_SECONDS = 6.0


def run(part: Part, *, fire_at: str) -> None:
    """The application: at the fire time, send the digest to every customer."""
    app = App(
        part.store,
        schema=part.schema,
        name="demo",
        lease=LEASE,
        poll="200ms",
        single_machine=True,
    )
    mailer = Mailer(part.provider, part.replica)

    def send_email(customer: int, *, idempotency_key: str) -> dict[str, Any]:
        return mailer.send(customer, idempotency_key)

    @app.every("1h", anchor=datetime.fromisoformat(fire_at))
    def nightly(run: Run) -> None:
        for customer in range(part.customers):
            run.effect(
                f"digest:{customer}",
                send_email,
                customer,
                pass_key_as="idempotency_key",
                if_unknown="repeat",
                provider_keeps="24h",
            )

    app.start()
    wait_for_input_to_end()
    app.stop()


def direct(stage: Stage) -> None:
    """Kill the replica that runs the job, freeze its successor, thaw it beside the third one."""
    store = stage.place.store()
    store.init()
    try:
        _direct(stage, store)
    finally:
        store.close()


def _direct(stage: Stage, store: AnyStore) -> None:
    with stage.watch(lambda: _holder(stage, store)):
        if stage.faults:
            with stage.provider.ambush(stage.somewhere(0.1, 0.4)) as ambush:
                _begin(stage, store)
                first = stage.fleet.named(ambush.wait(stage.patience).replica)
                stage.linger(ambush)
                first.kill()
            with stage.provider.ambush(stage.somewhere(0.5, 0.7)) as ambush:
                second = stage.fleet.named(ambush.wait(stage.patience).replica)
                stage.linger(ambush)
                second.freeze(stage.place.writable)
            stage.wait_for_another(second, mails=stage.somewhere(0.02, 0.15))
            second.thaw()
            until(lambda: _ended(store), seconds=stage.patience, what="the end of the run")
            _wait_for_return(store, second.pid)
        else:
            _begin(stage, store)
            until(lambda: _ended(store), seconds=stage.patience, what="the end of the run")
        stage.fleet.stop()


def _begin(stage: Stage, store: AnyStore) -> None:
    """Start the replicas, all with one fire time, which must lie ahead when the store hears it."""
    for seconds in UNTIL_FIRE_TIME:
        stage.fleet.start_all(stage.parts())
        fire_at = datetime.now(UTC) + timedelta(seconds=seconds)
        for replica in stage.fleet.replicas:
            replica.tell(fire_at=fire_at.isoformat())
        if _fires_at(store, fire_at, patience=stage.patience):
            return
        stage.fleet.dismiss()
    raise Stuck(
        f"no replica was up within {UNTIL_FIRE_TIME[-1]} s: this machine is too busy for the demo"
    )


def _fires_at(store: AnyStore, fire_at: datetime, *, patience: float) -> bool:
    """Wait for the schedule to be known; tell whether its first fire time is this instant."""
    wanted = instant(fire_at, what="the fire time")

    def lead() -> int | None:
        """Return how long after this instant it fires first, None for not known yet."""
        for schedule in store.run(views.schedules(name="nightly")):
            later = (schedule.last or schedule.next_fire) - wanted
            # Every hour on the hour of its anchor: another one's is what an earlier try declared.
            if later % HOUR == 0:
                return later
        return None

    until(lambda: lead() is not None, seconds=patience, what="the first replica's start")
    return lead() == 0


def _holder(stage: Stage, store: AnyStore) -> str:
    """Return the name of the replica that holds the run by what the store says, "" for none."""
    running = store.run(views.runs(job="nightly", state="running"))
    if not running:
        return ""
    pids = {replica.id: replica.pid for replica in store.run(views.replicas())}
    names = {replica.pid: replica.name for replica in stage.fleet.replicas}
    return names.get(pids.get(running[0].replica, 0), "")


def _ended(store: AnyStore) -> bool:
    return bool(store.run(views.runs(job="nightly", state="ended")))


def _wait_for_return(store: Any, pid: int) -> None:
    """Give the thawed replica the time to do harm, if it could: until it is back under a new id."""

    def is_back() -> bool:
        return any(
            replica.pid == pid and not replica.dead_at for replica in store.run(views.replicas())
        )

    until(is_back, seconds=RETURN_SECONDS, what="the thawed replica to come back under a new id")
