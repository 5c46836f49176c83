"""The keeper's thread: the others borrow its connection, and it ends with nothing left waiting."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from onejob.commands import views
from onejob.errors import StoreUnavailable
from onejob.runtime.lane import ThreadHost
from onejob.stores.memory import MemoryStore
from runtime.stage import STORE_START

PATIENCE_SECONDS = 5


class Lane:
    """A memory store's lane that notes the threads it is used from."""

    def __init__(self) -> None:
        self._lane = MemoryStore(lambda: STORE_START).lane(patience=1)  # type: ignore[arg-type]
        self.threads: set[str] = set()
        self.closed = 0

    def run(self, command: Any) -> Any:
        self.threads.add(threading.current_thread().name)
        return self._lane.run(command)

    def listen(self) -> bool:
        return False

    def fileno(self) -> None:
        return None

    def hinted(self) -> bool:
        return False

    def close(self) -> None:
        self.closed += 1


class Keeping:
    """A keeper that pauses until it is told to end."""

    def __init__(self, host: ThreadHost) -> None:
        self.host, self.over = host, False

    async def keep(self) -> None:
        while not self.over:
            await self.host.pause(PATIENCE_SECONDS * 1_000_000)

    def stop(self) -> None:
        self.over = True
        self.host.wake()


def test_commands_of_all_loops_are_carried_out_in_the_keepers_thread() -> None:
    async def scene() -> Lane:
        lane = Lane()
        host = ThreadHost(lane, "here", tidy=lambda: None)
        keeping = Keeping(host)
        host.start(keeping.keep)
        answers = await asyncio.gather(*(host.run(views.clock()) for _ in range(5)))
        assert answers == [STORE_START] * 5
        keeping.stop()
        await asyncio.wait_for(host.ended(), PATIENCE_SECONDS)
        return lane

    lane = asyncio.run(scene())

    assert lane.threads == {"onejob-keeper"}
    assert lane.closed == 1


def test_a_command_after_the_end_is_refused_and_does_not_wait_for_ever() -> None:
    async def scene() -> None:
        host = ThreadHost(Lane(), "here", tidy=lambda: None)
        keeping = Keeping(host)
        host.start(keeping.keep)
        await host.run(views.clock())
        keeping.stop()
        await asyncio.wait_for(host.ended(), PATIENCE_SECONDS)
        with pytest.raises(StoreUnavailable, match="stopping"):
            await asyncio.wait_for(host.run(views.clock()), PATIENCE_SECONDS)

    asyncio.run(scene())


def test_commands_on_their_way_while_the_keeper_ends_all_come_back() -> None:
    """Answered or refused; one that hung would hang the drain behind it."""

    async def scene() -> list[object]:
        host = ThreadHost(Lane(), "here", tidy=lambda: None)
        keeping = Keeping(host)
        host.start(keeping.keep)
        await host.run(views.clock())
        asking = [asyncio.ensure_future(host.run(views.clock())) for _ in range(50)]
        await asyncio.sleep(0)
        keeping.stop()
        more = [asyncio.ensure_future(host.run(views.clock())) for _ in range(50)]
        return await asyncio.wait_for(
            asyncio.gather(*asking, *more, return_exceptions=True), PATIENCE_SECONDS
        )

    answers = asyncio.run(scene())

    assert all(a == STORE_START or isinstance(a, StoreUnavailable) for a in answers)


def test_what_the_keeper_tells_arrives_in_the_loop_of_the_others() -> None:
    async def scene() -> str:
        host = ThreadHost(Lane(), "here", tidy=lambda: None)
        heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def keep() -> None:
            host.tell(lambda: heard.set_result(threading.current_thread().name))

        host.start(keep)
        return await asyncio.wait_for(heard, PATIENCE_SECONDS)

    assert asyncio.run(scene()) == threading.current_thread().name
