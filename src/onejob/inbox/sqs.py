"""Consume an Amazon SQS queue through boto3: deleted only after the commit.

Nothing is fetched that cannot begin at once. What fails becomes visible again after its pause; what
is dead is sent to the dead-letter queue, and only then deleted. Of a FIFO queue one message is
fetched at a time: two of a group that came together would be at work together.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from onejob.core.names import check_name
from onejob.core.time import SECOND, Duration, Span, duration, show_span
from onejob.errors import UsageError
from onejob.inbox.consumer import Consumer
from onejob.inbox.crew import Crew, until
from onejob.inbox.telling import tell
from onejob.runtime.events import log

#: How long one look for messages waits at the server; a stop waits for its end.
_LOOK_SECONDS: Final = 5
_PAUSE_AFTER_TROUBLE: Final = 1.0
#: SQS gives no more at once, and boto3 keeps so many connections.
_AT_ONCE_MOST: Final = 10
#: SQS keeps a message hidden for no longer.
_VISIBILITY_MOST: Final = Span(12 * 3_600 * SECOND)
_FIFO: Final = ".fifo"


async def consume(
    consumer: Consumer,
    queue_url: str,
    *,
    client: Any = None,
    dead_letter: str | None = None,
    visibility_timeout: Duration | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Consume until cancelled, or until ``stop`` is set; what is at work then ends first.

    ``client`` is boto3's, for SQS; one is made where none is given. ``dead_letter`` is the URL of
    the queue for dead messages, else the one of the queue's redrive policy. ``visibility_timeout``
    is asked for with each message; without, the queue's own counts.

    UsageError where handling may take longer than that, where the redrive policy would give a
    message up before ``max_deliveries`` does, where the inbox forgets before the queue does
    (``keep``, MessageRetentionPeriod), and where there is no place for dead messages. A message is
    the dict that boto3 gives; its id is the ``MessageId``, unless the inbox has a key.
    """
    check_name(queue_url, what="queue_url")
    visibility = None
    if visibility_timeout is not None:
        visibility = duration(visibility_timeout, what="visibility_timeout", least=SECOND)
        if visibility > _VISIBILITY_MOST:
            raise UsageError("visibility_timeout is at most 12 hours: SQS takes no more.")
    threads = ThreadPoolExecutor(_AT_ONCE_MOST, thread_name_prefix="onejob-sqs")
    try:
        queue = _Queue(client, threads)
        dead = await _checked(consumer, queue, queue_url, dead_letter, visibility)
        loop = _Loop(consumer, queue, queue_url, dead, visibility)
        try:
            await until(stop, loop.run())
        finally:
            await asyncio.gather(loop.leave(), loop.crew.drain(consumer.grace / SECOND))
            await consumer.close()
    finally:
        threads.shutdown(wait=False)


class _Queue:
    """boto3's client, called in threads of the loop's own: a look must not take a handler's."""

    def __init__(self, client: Any, threads: ThreadPoolExecutor) -> None:
        import boto3

        self._client = boto3.client("sqs") if client is None else client
        self._threads = threads

    def call(self, name: str, **parameters: Any) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(
            self._threads, partial(getattr(self._client, name), **parameters)
        )


async def _checked(
    consumer: Consumer, queue: _Queue, url: str, dead_letter: str | None, visibility: Span | None
) -> str:
    """Return the dead-letter queue's URL; UsageError where messages would be lost or doubled."""
    answer = await queue.call("get_queue_attributes", QueueUrl=url, AttributeNames=["All"])
    attributes: Mapping[str, str] = answer["Attributes"]
    consumer.check_limit(
        Span(int(attributes["VisibilityTimeout"]) * SECOND) if visibility is None else visibility,
        prefetch=1,
        name=f"the visibility timeout of {url}",
        advice="Give visibility_timeout=, raise it at the queue, or lower timeout=.",
    )
    retention = Span(int(attributes["MessageRetentionPeriod"]) * SECOND)
    if consumer.inbox.keep < retention:
        raise UsageError(
            f"inbox {consumer.inbox.name!r} keeps ids for {show_span(consumer.inbox.keep)}, and "
            f"{url} messages for {show_span(retention)}: a copy delivered in between would count "
            "as new. Raise keep=, or lower the queue's MessageRetentionPeriod."
        )
    redrive: Mapping[str, Any] = json.loads(attributes.get("RedrivePolicy", "{}"))
    if redrive and int(redrive["maxReceiveCount"]) <= consumer.max_deliveries:
        raise UsageError(
            f"the redrive policy of {url} gives a message up after {redrive['maxReceiveCount']} "
            "receives, counted on its envelope, and nothing is told of it. Set maxReceiveCount "
            f"above max_deliveries ({consumer.max_deliveries}), better to 1000: receives during "
            "trouble with the store count there, and not with us."
        )
    if dead_letter is None and redrive:
        *_, account, name = str(redrive["deadLetterTargetArn"]).split(":")
        found = await queue.call("get_queue_url", QueueName=name, QueueOwnerAWSAccountId=account)
        dead_letter = str(found["QueueUrl"])
    if dead_letter is None or dead_letter == url:
        raise UsageError(
            f"{url} needs another queue for dead messages. Give dead_letter=, its URL, or the "
            "queue a redrive policy."
        )
    await queue.call("get_queue_attributes", QueueUrl=dead_letter, AttributeNames=["QueueArn"])
    return dead_letter


class _Loop:
    def __init__(
        self, consumer: Consumer, queue: _Queue, url: str, dead: str, visibility: Span | None
    ) -> None:
        self.crew = Crew(consumer.concurrency)
        self._consumer, self._queue, self._url, self._dead = consumer, queue, url, dead
        self._most = 1 if url.endswith(_FIFO) else _AT_ONCE_MOST
        self._asked = {} if visibility is None else {"VisibilityTimeout": _seconds(visibility)}
        self._look: asyncio.Future[Any] | None = None

    async def run(self) -> None:
        """Fetch what there is room for."""
        from botocore.exceptions import BotoCoreError, ClientError

        while True:
            room = await self.crew.room()
            self._look = self._queue.call(
                "receive_message",
                QueueUrl=self._url,
                MaxNumberOfMessages=min(room, self._most),
                WaitTimeSeconds=_LOOK_SECONDS,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
                **self._asked,
            )
            try:
                # Shielded: what the server hands out meanwhile is given back, by `leave`.
                answer = await asyncio.shield(self._look)
            except (BotoCoreError, ClientError) as error:
                log.warning("onejob: SQS gave no messages of %s: %s", self._url, error)
                await asyncio.sleep(_PAUSE_AFTER_TROUBLE)
                continue
            for message in answer.get("Messages", ()):
                self.crew.begin(self._deliver(message))
            self._look = None

    async def leave(self) -> None:
        """Give back what the last look brings: nobody is left to handle it."""
        if self._look is None:
            return
        try:
            answer = await self._look
            for message in answer.get("Messages", ()):
                await self._give_back(message, Span(0))
        except Exception as error:  # noqa: BLE001 - visible again by itself, later
            log.info("onejob: SQS was not told: %s", error)

    async def _deliver(self, message: Mapping[str, Any]) -> None:
        received = int(message.get("Attributes", {}).get("ApproximateReceiveCount", 1))
        verdict = await self._consumer.deliver(
            message, envelope_id=lambda given: given["MessageId"], redelivered=received > 1
        )
        await tell(
            "SQS",
            verdict,
            done=lambda: self._delete(message),
            again=lambda pause: self._give_back(message, pause),
            dead=lambda why: self._bury(message, why),
        )

    async def _delete(self, message: Mapping[str, Any]) -> None:
        await self._queue.call(
            "delete_message", QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"]
        )

    async def _give_back(self, message: Mapping[str, Any], pause: Span) -> None:
        await self._queue.call(
            "change_message_visibility",
            QueueUrl=self._url,
            ReceiptHandle=message["ReceiptHandle"],
            VisibilityTimeout=_seconds(pause),
        )

    async def _bury(self, message: Mapping[str, Any], why: str) -> None:
        """Deleted only once the other queue has said that it has it."""
        from botocore.exceptions import ClientError

        copy = {"QueueUrl": self._dead, "MessageBody": message["Body"]}
        if self._dead.endswith(_FIFO):
            group = message.get("Attributes", {}).get("MessageGroupId", "onejob")
            copy |= {"MessageGroupId": group, "MessageDeduplicationId": message["MessageId"]}
        own = message.get("MessageAttributes", {})
        about = {name: _text(text) for name, text in _told_of(self._url, why)}
        try:
            await self._queue.call("send_message", MessageAttributes={**own, **about}, **copy)
        except ClientError:
            # Such as for want of room: ten attributes, and a size. The message itself must fit.
            log.warning("onejob: %s took no reason for a dead message: %s", self._dead, why)
            await self._queue.call("send_message", MessageAttributes=own, **copy)
        await self._delete(message)


def _told_of(url: str, why: str) -> tuple[tuple[str, str], ...]:
    return ("onejob-reason", " ".join(why.split())), ("onejob-queue", url)


def _text(text: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": text}


def _seconds(span: Span) -> int:
    """Return whole seconds, as SQS wants them, and no fewer."""
    return -(-span // SECOND)
