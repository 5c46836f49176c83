"""What the two processes run: five ways to guard a write, each as people write it.

A way takes its lock, writes, and gives the lock back, one step at a time as it is told. It keeps
believing what it was told when it took the lock, unless what it uses tells it better.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from onejob.app import App
from onejob.core.time import SECOND, Span
from onejob.demo.part import Part
from onejob.demo.pause.desk import Desk, SqlDesk
from onejob.demo.pause.redis_desk import RedisDesk
from onejob.demo.place import Place
from onejob.errors import LeaseLost, OnejobError, StaleToken
from onejob.lease import Lease

#: How often somebody who waits for the home-made lock looks again.
LOOK_SECONDS = 0.05
#: What the holder writes about: the same work, whoever does it.
WORK = "payout 2026-11"
RESOURCE = "document"
#: How long a transaction here may last; it only writes one row.
LONGEST = Span(SECOND)


@dataclass(frozen=True, slots=True)
class Wrote:
    """Whether a write landed; ``why`` not, and who refused it."""

    landed: bool
    why: str = ""


class BareLock:
    """A lock with an expiry, and nothing else: no token, and freed whoever holds it by then."""

    def __init__(self, part: Part, ttl: float) -> None:
        self.who, self.ttl = part.replica, ttl
        self.desk = desk_of(part)

    def take(self, wait: float) -> int | None:
        """Take the lock, waiting so long at most. It has no token to tell."""
        end = time.monotonic() + wait
        while not self.desk.take(self.who, self.ttl):
            if time.monotonic() > end:
                raise TimeoutError("somebody holds it")
            time.sleep(LOOK_SECONDS)
        return None

    def write(self) -> Wrote:
        """Write to the document."""
        self.desk.write(self.who)
        return Wrote(True)

    def drop(self) -> None:
        """Give the lock back."""
        self.desk.drop()


class _Leased:
    """A lease of onejob's, held from ``take`` to ``drop``."""

    protects: tuple[str, ...] = ()

    def __init__(self, part: Part, ttl: float) -> None:
        self.who, self.ttl = part.replica, ttl
        self.app = App(part.store, schema=part.schema, single_machine=True)
        self.desk = desk_of(part)
        self._lock: AbstractContextManager[Lease] | None = None
        self.lease: Lease | None = None

    def take(self, wait: float) -> int | None:
        """Take the lock; return its token."""
        self._lock = self.app.lock("payout", ttl=self.ttl, wait=wait, protects=self.protects)
        self.lease = self._lock.__enter__()
        return self.lease.token

    def drop(self) -> None:
        """Give the lock back. Raises LeaseLost where it was lost: nobody else's is freed."""
        assert self._lock is not None, "taken before"
        self._lock.__exit__(None, None, None)

    @property
    def token(self) -> int:
        """Return the token under which this process believes it holds the lock."""
        assert self.lease is not None, "taken before"
        return self.lease.token


class TokenAtWrite(_Leased):
    """The token is compared at the document, and shown there by nothing but a write."""

    def write(self) -> Wrote:
        """Write unless the document has seen a higher token."""
        if self.desk.write_if(self.who, self.token):
            return Wrote(True)
        return Wrote(False, "the document has seen a higher token")


class LeaseFenced(_Leased):
    """The lease is locked in the transaction that writes, and a new holder announces its token."""

    protects = (RESOURCE,)

    def take(self, wait: float) -> int | None:
        """Take the lock; on Redis show its token at the document as well."""
        token = super().take(wait)
        if isinstance(self.desk, RedisDesk):
            self.desk.announce(self.token)
        return token

    def write(self) -> Wrote:
        """Write in a fenced transaction; where the lease itself refuses, ask the document too."""
        try:
            self._write()
        except (LeaseLost, StaleToken) as refused:
            return Wrote(False, f"{_who(refused)}; {self._asked_directly()}")
        return Wrote(True)

    def _write(self) -> None:
        assert self.lease is not None, "taken before"
        if isinstance(self.desk, RedisDesk):
            self.lease.check()
            if not self.desk.write_if(self.who, self.token):
                raise StaleToken(RESOURCE, mine=self.token, current=self.desk.seen())
            return
        assert isinstance(self.desk, SqlDesk), "the only other one"
        with self.lease.transaction() as connection:
            self.desk.write_in(connection, self.who)

    def _asked_directly(self) -> str:
        """Try once more past the lease, as code that has only the number: the store decides."""
        if isinstance(self.desk, RedisDesk):
            landed = self.desk.write_if(self.who, self.token)
            return "it landed at the document" if landed else self._older(self.desk.seen())
        assert isinstance(self.desk, SqlDesk), "the only other one"
        try:
            with self.app.store.transaction(longest=LONGEST) as connection:
                self.app.fence(RESOURCE, self.token, within=connection)
                self.desk.write_in(connection, self.who)
        except StaleToken as refused:
            return self._older(refused.current)
        return "it landed at the document"

    def _older(self, seen: int) -> str:
        return f"the document: token {self.token} is older than {seen}"


class LeaseLedger(_Leased):
    """The lease only saves work: what must land once has a key in the ledger, written with it."""

    def write(self) -> Wrote:
        """Write unless this work is in the ledger, whoever did it."""
        if isinstance(self.desk, RedisDesk):
            first = self.desk.write_once(self.who, WORK)
        else:
            assert isinstance(self.desk, SqlDesk), "the only other one"
            with self.app.store.transaction(longest=LONGEST) as connection:
                first = self.app.first("payout", WORK, within=connection)
                if first:
                    self.desk.write_in(connection, self.who)
        return Wrote(True) if first else Wrote(False, "the ledger: it has been done, a duplicate")


class AdvisoryLock:
    """PostgreSQL's own lock, in a transaction that the server ends when its holder falls silent.

    The lock goes with the transaction, and the effect is outside of it: the holder, thawed, does
    not know that its transaction is gone.
    """

    def __init__(self, part: Part, ttl: float) -> None:
        import psycopg

        self.who, self.ttl = part.replica, ttl
        self.desk = desk_of(part)
        self._part = part
        self._connection = psycopg.connect(part.store)

    def take(self, wait: float) -> int | None:
        """Try for the lock, again and again, each time in a transaction of its own."""
        from onejob.advisory import transaction_lock

        end = time.monotonic() + wait
        while True:
            self._connection.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
                (str(int(self.ttl * 1000)),),
            )
            if transaction_lock(self._connection, "payout", namespace=self._part.schema):
                return None
            self._connection.rollback()
            if time.monotonic() > end:
                raise TimeoutError("somebody holds it")
            time.sleep(LOOK_SECONDS)

    def write(self) -> Wrote:
        """Write where the transaction doesn't reach, as a call to a provider does."""
        self.desk.write(self.who)
        return Wrote(True)

    def drop(self) -> None:
        """Commit. Only here does a holder whose transaction was ended hear of it."""
        self._connection.commit()


WAYS: dict[str, Callable[[Part, float], Any]] = {
    "bare-lock": BareLock,
    "token-at-write": TokenAtWrite,
    "advisory-lock": AdvisoryLock,
    "lease-fenced": LeaseFenced,
    "lease-ledger": LeaseLedger,
}


def desk_of(part: Part) -> Desk:
    """Return the desk in the part's store."""
    if part.store.startswith(("sqlite:", "postgres")):
        return SqlDesk(Place.at(part.store, part.schema))
    return RedisDesk(part.store, part.schema)


def _who(refused: OnejobError) -> str:
    why = getattr(refused, "why", "")
    return f"the holder itself: {why}" if why else "the document, under its lock"
