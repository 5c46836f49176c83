"""Locks between real processes: frozen past the lease, killed, forked, silent in a transaction."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from api.lock_holder import RESOURCE
from onejob import App, LeaseLost, NotAcquired

pytestmark = pytest.mark.slow

HOLDER = Path(__file__).with_name("lock_holder.py")


class Holder:
    """A process that holds lock ``nightly``."""

    def __init__(self, app: App, url: str, ttl: str) -> None:
        self._app = app
        self._process = subprocess.Popen(
            [sys.executable, str(HOLDER), url, app.schema, ttl],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.token = int(self.hear())

    def say(self, what: str) -> None:
        assert self._process.stdin is not None
        print(what, file=self._process.stdin, flush=True)

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, what: str) -> str:
        self.say(what)
        return self.hear()

    def freeze(self) -> None:
        """Stop it, but not inside a write: on SQLite that would stop every other writer too."""
        path = getattr(self._app.store, "path", None)
        while True:
            self._process.send_signal(signal.SIGSTOP)
            if path is None:
                return
            with closing(sqlite3.connect(path, timeout=0.3)) as connection:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError:
                    self._process.send_signal(signal.SIGCONT)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def table_of_sales(app: App) -> Iterator[None]:
    """Have it for a while only: other tests share the database."""
    store: Any = app.store
    with store.transaction(longest=9_000_000) as connection:
        connection.execute("CREATE TABLE sold (who TEXT)")
    try:
        yield
    finally:
        with store.transaction(longest=9_000_000) as connection:
            connection.execute("DROP TABLE sold")


@pytest.fixture
def hold(app: App, request: pytest.FixtureRequest) -> Iterator[Callable[..., Holder]]:
    """Start processes that hold the lock, over a store that has a table of the user's own."""
    store: Any = app.store
    url = request.getfixturevalue("sqlite_url" if store.dialect == "sqlite" else "postgres_url")
    holders: list[Holder] = []

    def hold(ttl: str = "1s") -> Holder:
        holders.append(Holder(app, url, ttl))
        return holders[-1]

    with table_of_sales(app):
        yield hold
        for holder in holders:
            holder.kill()


def sold(app: App) -> list[str]:
    store: Any = app.store
    with store.transaction(longest=9_000_000) as connection:
        return [who for (who,) in connection.execute("SELECT who FROM sold").fetchall()]


def test_a_holder_that_was_frozen_past_its_lease_can_do_nothing_more(
    app: App, hold: Callable[..., Holder]
) -> None:
    """A13, C01, C02, C08, C09: another took over meanwhile, and it wakes up in good faith."""
    old = hold()
    assert old.ask("write") == "written"
    old.freeze()

    with app.lock("nightly", ttl="20s", wait="20s", protects=RESOURCE) as lease:
        old.thaw()
        answers = [old.ask(what) for what in ("check", "write", "token", "leave")]
        lease.check()
        with pytest.raises(NotAcquired):
            app.lock("nightly").__enter__()

    assert lease.token > old.token
    assert answers == ["lost", "refused", f"stale {old.token} {lease.token}", "lost at the end"]
    assert sold(app) == ["fenced"]


def test_a_holder_that_was_frozen_past_its_lease_knows_it_though_nobody_came(
    app: App, hold: Callable[..., Holder]
) -> None:
    """C19, P6: by its own clock, before it could ask anybody."""
    holder = hold()
    holder.freeze()
    lapsed = [lock.state for lock in [app.locks.get("nightly")] if lock]
    while lapsed != ["lapsed"]:
        lapsed = [lock.state for lock in [app.locks.get("nightly")] if lock]

    holder.thaw()

    assert [holder.ask(what) for what in ("check", "write")] == ["lost", "refused"]
    assert sold(app) == []


def test_a_lock_is_free_one_lease_after_its_holder_was_killed(
    app: App, hold: Callable[..., Holder]
) -> None:
    """C04, C17: whatever its connections look like to the server."""
    holder = hold()
    with pytest.raises(NotAcquired):
        app.lock("nightly").__enter__()
    holder.kill()

    with app.lock("nightly", wait="20s") as lease:
        assert lease.token > holder.token


def test_a_holder_that_falls_silent_in_its_transaction_is_put_out(
    postgres_app: App, postgres_url: str
) -> None:
    """C24, A13: frozen inside, it would keep the row until TCP gives up, hours later."""
    holder = Holder(postgres_app, postgres_url, "1s")
    with table_of_sales(postgres_app):
        try:
            assert holder.ask("sit") == "sitting"
            holder.freeze()
            with postgres_app.lock("nightly", ttl="20s", wait="20s") as lease:
                holder.thaw()
                ended = holder.ask("go on")
                assert lease.token > holder.token
        finally:
            holder.kill()

        assert ended == "lease_lost"
        assert sold(postgres_app) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_neither_holds_nor_releases_its_parents_lock(app: App) -> None:
    """C16: what it inherited is the parent's; a lock that it needs it takes itself."""
    reading, writing = os.pipe()
    lock = app.lock("nightly")
    with lock as lease:
        pid = os.fork()
        if pid == 0:
            answer = b"?"
            try:
                try:
                    lease.check()
                except LeaseLost as lost:
                    answer = b"lost " if "forked" in str(lost) else b"other "
                try:
                    app.lock("nightly").__enter__()
                except NotAcquired:
                    answer += b"refused"
                lock.__exit__(None, None, None)
            finally:
                os.write(writing, answer)
                os._exit(0)
        os.waitpid(pid, 0)
        lease.check()
        assert app.locks.list()[0].token == lease.token

    assert os.read(reading, 100) == b"lost refused"
