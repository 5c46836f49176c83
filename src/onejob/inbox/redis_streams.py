"""Consume a Redis stream in a consumer group: acknowledged only after the commit.

Nothing is fetched that cannot begin at once. What another consumer left behind for longer than
``claim_idle`` is claimed, and so is what failed here, after its pause. A dead message is added to
the dead-letter stream and acknowledged in one step.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from onejob.core.names import check_name
from onejob.core.time import SECOND, Duration, Span, duration
from onejob.inbox.consumer import Consumer
from onejob.inbox.crew import Crew, until
from onejob.inbox.telling import tell
from onejob.runtime.events import log

#: How long one look for new messages waits at the server.
_BLOCK_MILLISECONDS = 500
#: How often, at the least, it is looked for what was left behind.
_LOOK_MOST = 1.0
_PAUSE_AFTER_TROUBLE = 1.0


async def consume(
    consumer: Consumer,
    stream: str,
    *,
    group: str,
    url: str = "redis://localhost:6379/0",
    name: str | None = None,
    claim_idle: Duration = "60s",
    dead_letter: str | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Consume until cancelled, or until ``stop`` is set; what is at work then ends first.

    The group is made where there is none, and begins with the stream's oldest entry. A message is
    ``(id, fields)``; its id is the entry's, unless the inbox has a key: a sender that adds the same
    again makes another entry. ``claim_idle`` is when a message counts as left behind: UsageError
    where handling may take longer. The dead-letter stream is ``STREAM:dead``.
    """
    for what, given in (("stream", stream), ("group", group)):
        check_name(given, what=what)
    idle = duration(claim_idle, what="claim_idle", least=Span(SECOND // 10))
    consumer.check_limit(
        idle, prefetch=1, name="claim_idle", advice="Raise claim_idle=, or lower timeout=."
    )
    import redis.asyncio

    me = name or f"{socket.gethostname()}:{os.getpid()}"
    dead = f"{stream}:dead" if dead_letter is None else dead_letter
    async with redis.asyncio.from_url(url, decode_responses=False) as client:
        loop = _Loop(consumer, client, stream, group, me, dead, idle)
        await loop.join()
        try:
            await until(stop, loop.run())
        finally:
            await loop.crew.drain(consumer.grace / SECOND)
            await consumer.close()


class _Loop:
    def __init__(
        self,
        consumer: Consumer,
        client: Any,
        stream: str,
        group: str,
        name: str,
        dead: str,
        idle: Span,
    ) -> None:
        self.crew = Crew(consumer.concurrency)
        self._consumer, self._client = consumer, client
        self._stream, self._group, self._name, self._dead = stream, group, name, dead
        self._idle = idle // 1_000
        self._look_every = min(_LOOK_MOST, idle / SECOND / 4)
        self._look_at = 0.0
        self._cursor: bytes | str = "0-0"

    async def join(self) -> None:
        """Make the group, from the oldest entry on, where there is none."""
        import redis

        try:
            await self._client.xgroup_create(self._stream, self._group, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def run(self) -> None:
        """Fetch what there is room for, what was left behind first."""
        import redis

        while True:
            room = await self.crew.room()
            try:
                left = await self._left_behind(room)
                fresh = [] if left else await self._new(room)
            except (redis.ConnectionError, redis.TimeoutError) as error:
                log.warning("onejob: no Redis for stream %s: %s", self._stream, error)
                await asyncio.sleep(_PAUSE_AFTER_TROUBLE)
                continue
            for entry, redelivered in [(e, True) for e in left] + [(e, False) for e in fresh]:
                self.crew.begin(self._deliver(*entry, redelivered))

    async def _left_behind(self, room: int) -> list[tuple[bytes, Mapping[bytes, bytes]]]:
        if time.monotonic() < self._look_at:
            return []
        answer = await self._client.xautoclaim(
            self._stream, self._group, self._name, self._idle, start_id=self._cursor, count=room
        )
        # One look reads a part of what is pending; after the last one it begins anew.
        self._cursor = answer[0]
        if self._cursor in (b"0-0", "0-0"):
            self._look_at = time.monotonic() + self._look_every
        for gone in answer[2] if len(answer) > 2 else ():
            # The stream was trimmed while it was pending: nobody has its content any more.
            self._consumer.inbox.services().events.emit(
                "message.trimmed", inbox=self._consumer.inbox.name, entry=gone.decode()
            )
        return [(id, fields) for id, fields in answer[1] if fields is not None]

    async def _new(self, room: int) -> list[tuple[bytes, Mapping[bytes, bytes]]]:
        answer = await self._client.xreadgroup(
            self._group,
            self._name,
            {self._stream: ">"},
            count=room,
            block=_BLOCK_MILLISECONDS,
        )
        if isinstance(answer, dict):
            answer = [(key, entries[0] if entries else []) for key, entries in answer.items()]
        return [entry for _, entries in answer or () for entry in entries]

    async def _deliver(
        self, entry: bytes, fields: Mapping[bytes, bytes], redelivered: bool
    ) -> None:
        message = (entry.decode(), {key.decode(): value for key, value in fields.items()})
        verdict = await self._consumer.deliver(
            message, envelope_id=lambda given: given[0], redelivered=redelivered
        )
        await tell(
            "Redis",
            verdict,
            done=lambda: self._client.xack(self._stream, self._group, entry),
            again=lambda pause: self._wait_for_its_turn(entry, pause),
            dead=lambda why: self._bury(entry, fields, why),
        )

    async def _wait_for_its_turn(self, entry: bytes, pause: Span) -> None:
        """Leave it pending, idle for so long that it can be claimed once the pause is over."""
        await self._client.execute_command(
            "XCLAIM", self._stream, self._group, self._name, 0, entry,
            "IDLE", max(0, self._idle - pause // 1_000), "JUSTID",
        )  # fmt: skip

    async def _bury(self, entry: bytes, fields: Mapping[bytes, bytes], why: str) -> None:
        about = {b"onejob-reason": why.encode(), b"onejob-entry": entry}
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.xadd(self._dead, {**fields, **about})
            pipe.xack(self._stream, self._group, entry)
            await pipe.execute()
