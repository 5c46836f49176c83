"""A fork while threads of the parent are inside SQLite (A03)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from onejob.commands import runs, views
from onejob.core.time import SECOND, Span
from onejob.stores.sqlite import SqliteStore

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def test_a_child_that_was_forked_while_threads_wrote_can_write_itself(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "forked.db")
    store.init()
    lane = store.lane(patience=Span(8 * SECOND))
    lane.listen()
    stopping = threading.Event()

    def write() -> None:
        while not stopping.is_set():
            store.run(runs.enqueue([runs.NewRun("job", "key", "{}")]))
            lane.hinted()

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        bad = next((code for _ in range(30) if (code := _forked(store))), 0)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()

    assert bad == 0
    assert lane.run(views.clock()) > 0
    lane.close()
    store.close()


def _forked(store: SqliteStore) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.run(runs.enqueue([runs.NewRun("job", "from the child", "{}")]))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
