"""An answer that comes too late: nobody begins to work under a lease that is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from onejob import App, NotAcquired


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """An App whose store gives the first lock late: a second after it has drawn the token."""
    app = App("memory://")
    store: Any = app.store
    ran, late = store.run, [1.1]

    def slow(command: Any, within: Any = None) -> Any:
        answer = ran(command, within)
        if late and command.name == "lease_acquire" and answer is not None:
            time.sleep(late.pop())
        return answer

    monkeypatch.setattr(store, "run", slow)
    yield app
    app.close()


def test_whoever_is_told_too_late_is_refused_and_keeps_nobody_out(app: App) -> None:
    """C01: by then the store lets the next one in."""
    with (
        pytest.raises(NotAcquired, match="over"),
        app.lock("x", ttl="1s", at_least="10m") as lease,
    ):
        raise AssertionError(f"the body begins, lost: {lease.lost}")

    with app.lock("x", wait="10s"):
        pass


def test_whoever_waits_asks_again(app: App) -> None:
    with app.lock("x", ttl="1s", wait="10s") as lease:
        lease.check()


def test_so_it_is_in_a_loop(app: App) -> None:
    async def acquire() -> None:
        async with app.lock("x", ttl="1s") as lease:
            raise AssertionError(f"the body begins, lost: {lease.lost}")

    with pytest.raises(NotAcquired, match="over"):
        asyncio.run(acquire())
