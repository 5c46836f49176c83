"""One of two processes that take a lock in turn, and write in good faith under every recipe.

It looks at its lease nowhere but where a recipe does: what was true when it took the lock it
believes for ever after, however long it has stood still.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from faults.pauses.board import Board
from faults.pauses.effects import SEEN, Data
from faults.pauses.scripted import Value
from faults.pauses.service import RESOURCE as HTTP
from faults.pauses.service import send
from onejob import App, Lease, LeaseLost, NotAcquired, OnejobError, StoreError

LOCK, RESOURCE = "payout", "pause-table"
#: How long the work after a round of writes takes.
WORK_SECONDS = (0.0, 0.05)
#: After a lease, so that the other one, which looks again every so often, gets its turn.
TURN_SECONDS = 0.1
#: How long a renewal takes, about: the process stays where it is for so long.
RENEWAL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Told:
    """What a process is told when it is started."""

    who: str
    url: str
    schema: str
    ttl: str
    board: str
    seed: int
    data_url: str
    data_prefix: str
    redis_url: str
    value: str
    port: int
    bell: int


class Refused(Exception):
    """A recipe refused the write."""


class Holder:
    """The process, and what its writes came to by its own account."""

    def __init__(self, told: Told) -> None:
        self.told, self.board = told, Board(Path(told.board), told.bell)
        self.random = Random(f"{told.seed} {told.who}")
        self.app = App(told.url, schema=told.schema, name="pauses", lease="1s", single_machine=True)
        self.data = Data(told.data_url, told.data_prefix)
        self.value = Value(told.redis_url, told.value)
        #: By recipe: the names of the writes that were told to have landed, or to be refused.
        self.said: dict[str, dict[str, list[str]]] = {}
        self._writes = 0
        recipes: dict[str, Callable[[Lease, str], None]] = {
            "token_seen": self._token_seen,
            "script": self._script,
            "http": self._http,
            "bare": self._bare,
        }
        if not told.url.startswith("redis"):
            recipes |= {
                "transaction": self._transaction,
                "lease_fence": self._lease_fence,
                "app_fence": self._app_fence,
            }
        self.recipes = recipes

    def run(self) -> None:
        """Take the lock again and again, until told to stop or left alone."""
        parent = os.getppid()
        while not self.board.stop and os.getppid() == parent:
            self.board.phase = "acquire"
            try:
                with self.app.lock(
                    LOCK, ttl=self.told.ttl, wait="30s", protects=[RESOURCE, HTTP]
                ) as lease:
                    self.board.acquired = time.monotonic_ns()
                    self.board.token = lease.token
                    self._body(lease)
                    self.board.phase = "release"
            except (NotAcquired, LeaseLost, StoreError):
                pass
            except Exception as error:  # noqa: BLE001 - a driver's: it could not announce, so it ends
                print(f"announce: {error!r}", file=sys.stderr, flush=True)
            self.board.rounds += 1
            time.sleep(TURN_SECONDS)

    def _body(self, lease: Lease) -> None:
        self.board.phase = "announce"
        self._announce(lease.token)
        for _ in range(2):
            names = sorted(self.recipes)
            self.random.shuffle(names)
            for name in names:
                self._attempt(name, lease)
            self._work()

    def _work(self) -> None:
        """Work for a moment; or for as long as a third of the lease, when it is renewed."""
        self.board.phase = "work"
        if self.board.target != "renew":
            time.sleep(self.random.uniform(*WORK_SECONDS))
            return
        due = self.board.acquired / 1e9 + int(self.told.ttl.removesuffix("ms")) / 3_000
        time.sleep(max(0.0, due - RENEWAL_SECONDS / 4 - time.monotonic()))
        self.board.phase = "renew"
        time.sleep(RENEWAL_SECONDS)

    def _announce(self, token: int) -> None:
        """Show the token to whatever does not hear of it through the lock; and mark everything."""
        told = self.told
        send(told.port, "mark", token, told.who)
        self.value.announce(token, told.who)
        with closing(self.data.connect()) as connection:
            self.data.execute(connection, SEEN, token, "token_seen", token)
            marked = [name for name in self.recipes if name not in ("script", "http")]
            # Always in one order: two who mark never wait for each other in a ring.
            for name in sorted(marked):
                self.data.note(connection, name, token, told.who, "mark")
            connection.commit()

    def _attempt(self, name: str, lease: Lease) -> None:
        self._writes += 1
        who = f"{self.told.who}-{self._writes}"
        self.board.phase = name
        try:
            self.recipes[name](lease, who)
        except (Refused, OnejobError) as refused:
            unclear = isinstance(refused, StoreError)
            answer = "unclear" if unclear else "refused"
        except Exception as error:  # noqa: BLE001 - whatever a driver raises: nobody knows
            answer = "unclear"
            print(f"{name}: {error!r}", file=sys.stderr, flush=True)
        else:
            answer = "landed"
        self.said.setdefault(name, {}).setdefault(answer, []).append(who)

    def _transaction(self, lease: Lease, who: str) -> None:
        with lease.transaction() as connection:
            self.data.note(connection, "transaction", lease.token, who)

    def _lease_fence(self, lease: Lease, who: str) -> None:
        with closing(self.data.connect()) as connection:
            lease.fence(within=connection)
            self.data.note(connection, "lease_fence", lease.token, who)
            connection.commit()

    def _app_fence(self, lease: Lease, who: str) -> None:
        with closing(self.data.connect()) as connection:
            self.app.fence(RESOURCE, lease.token, within=connection)
            self.data.note(connection, "app_fence", lease.token, who)
            connection.commit()

    def _token_seen(self, lease: Lease, who: str) -> None:
        with closing(self.data.connect()) as connection:
            if not self.data.note_guarded(connection, lease.token, who):
                raise Refused
            connection.commit()

    def _script(self, lease: Lease, who: str) -> None:
        if not self.value.write(lease.token, who):
            raise Refused

    def _http(self, lease: Lease, who: str) -> None:
        status = send(self.told.port, "write", lease.token, who)
        if status == 409:
            raise Refused
        assert status == 204, status

    def _bare(self, lease: Lease, who: str) -> None:
        """As people write: the lock was taken, so the write is thought to be safe."""
        with closing(self.data.connect()) as connection:
            self.data.note(connection, "bare", lease.token, who)
            connection.commit()


def main() -> None:
    told: dict[str, Any] = json.loads(sys.argv[1])
    holder = Holder(Told(**told))
    holder.run()
    print(json.dumps(holder.said), flush=True)
    holder.value.close()
    holder.app.close()


if __name__ == "__main__":
    main()
