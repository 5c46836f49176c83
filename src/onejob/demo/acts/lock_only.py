"""A lock in the database, as it is often written at home: a row with a holder and an expiry.

It is a decent one: taken by one guarded UPDATE, renewed by a thread while the job runs, and it
remembers that tonight's job is done. What it lacks is everything after "I hold the lock": a
fencing token, and a record of what has been sent. So when its holder stands still for longer than
the expiry, another replica rightly takes over and begins from the start, and the first one, when
it wakes, goes on where it was.
"""

from __future__ import annotations

import threading
import time

from onejob.demo.leash import end_with_input
from onejob.demo.mail import Mailer
from onejob.demo.part import Part
from onejob.demo.place import Place
from onejob.demo.stage import Stage

TTL_SECONDS = 1.0
POLL_SECONDS = 0.1

CREATE = "CREATE TABLE {table} (name TEXT PRIMARY KEY, holder TEXT, expires FLOAT, done INTEGER)"
TAKE = (
    "UPDATE {table} SET holder = ?, expires = ? WHERE name = 'nightly' AND done = 0 AND expires < ?"
)
RENEW = "UPDATE {table} SET expires = ? WHERE name = 'nightly' AND holder = ?"
FINISH = "UPDATE {table} SET done = 1, expires = 0 WHERE name = 'nightly'"
HELD = "SELECT holder FROM {table} WHERE name = 'nightly' AND done = 0 AND holder <> ''"
DONE = "SELECT done FROM {table} WHERE name = 'nightly' AND done = 1"


def run(part: Part) -> None:
    """The application: whoever gets the lock sends the digest to every customer."""
    end_with_input()
    place = Place.at(part.store, part.schema)
    mailer = Mailer(part.provider, part.replica)
    while not place.fetch(DONE):
        if place.write(TAKE, part.replica, time.time() + TTL_SECONDS, time.time()):
            through = threading.Event()
            threading.Thread(target=_renew, args=(part, through), daemon=True).start()
            for customer in range(part.customers):
                mailer.send(customer)
            through.set()
            place.write(FINISH)
        time.sleep(POLL_SECONDS)


def _renew(part: Part, through: threading.Event) -> None:
    place = Place.at(part.store, part.schema)
    while not through.wait(TTL_SECONDS / 4):
        place.write(RENEW, time.time() + TTL_SECONDS, part.replica)


def direct(stage: Stage) -> None:
    """Freeze the holder in the middle, past its lease, until another one is sending; thaw it."""
    stage.place.prepare()
    stage.place.write(CREATE)
    stage.place.write("INSERT INTO {table} VALUES ('nightly', '', 0, 0)")
    replicas = stage.fleet.start_all(stage.parts())
    with stage.watch(lambda: _holder(stage.place)):
        if stage.faults:
            with stage.provider.ambush(stage.somewhere(0.2, 0.8)) as ambush:
                for replica in replicas:
                    replica.tell()
                holder = stage.fleet.named(ambush.wait(stage.patience).replica)
                holder.freeze(stage.place.writable)
            stage.wait_for_another(holder, mails=stage.somewhere(0.02, 0.2))
            holder.thaw()
        else:
            for replica in replicas:
                replica.tell()
        stage.fleet.wait_ended(seconds=stage.patience, what="every replica to see the job done")


def _holder(place: Place) -> str:
    rows = place.fetch(HELD)
    return str(rows[0][0]) if rows else ""
