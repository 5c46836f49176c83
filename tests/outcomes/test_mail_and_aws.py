"""smtplib and botocore, at servers on loopback that misbehave."""

from __future__ import annotations

import smtplib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from onejob.outcomes import FINAL, NOT_SENT, REFUSED, UNKNOWN, Meaning
from outcomes.rogue import Rogue, closed_port, full_port
from outcomes.test_http_clients import SHORT, meant
from outcomes.test_own_retries import heard_once

ALL_WELL = {"hello": "220 hi", "EHLO": "250 hi", "MAIL": "250 ok", "RCPT": "250 ok"}
ALL_WELL |= {"DATA": "354 go on", ".": "250 taken", "RSET": "250 ok", "QUIT": "221 bye"}


@contextmanager
def mail_server(**replies: str) -> Iterator[int]:
    """Yield the port of a mail server for one client; "" as a reply hangs up."""
    says = {**ALL_WELL, **{name.replace("dot", "."): reply for name, reply in replies.items()}}
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            if not reply(stream, says["hello"]):
                return
            in_message = False
            for line in stream:
                said = line.strip().decode()
                if in_message and said != ".":
                    continue
                verb = said.split(" ")[0].upper()
                answer = says.get(verb, "250 ok")
                in_message = verb == "DATA" and answer.startswith("354")
                if not reply(stream, answer):
                    return

    def reply(stream: Any, text: str) -> bool:
        if text:
            stream.write(f"{text}\r\n".encode())
            stream.flush()
        return bool(text)

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        server.join(10)


def send(port: int, host: str = "127.0.0.1", timeout: float = 20) -> None:
    with smtplib.SMTP(host, port, timeout=timeout) as mail:
        mail.sendmail("us@example.com", ["ada@example.com"], "Subject: hi\r\n\r\nhello")


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        ({"hello": "554 go away"}, NOT_SENT),
        ({"MAIL": "550 not you"}, FINAL),
        ({"MAIL": "451 later"}, REFUSED),
        ({"RCPT": "550 unknown"}, FINAL),
        ({"RCPT": "450 busy"}, REFUSED),
        ({"DATA": "451 later"}, REFUSED),
        ({"dot": "554 spam"}, FINAL),
        ({"dot": "452 full"}, REFUSED),
        ({"dot": ""}, UNKNOWN),
        ({"RCPT": ""}, UNKNOWN),
    ],
)
def test_a_mail_server_says_what_it_says(replies: dict[str, str], said: Meaning) -> None:
    """E13: hanging up after the last dot is no answer."""
    with mail_server(**replies) as port:
        assert meant(lambda: send(port)) is said


def test_a_mail_server_that_is_not_there_was_sent_nothing() -> None:
    """E13: and a timeout is known to be one of connecting by the way that it came."""
    assert meant(lambda: send(closed_port())) is NOT_SENT
    assert meant(lambda: send(25, "nobody.invalid")) is NOT_SENT
    with full_port() as port:
        assert meant(lambda: send(port, timeout=SHORT)) is NOT_SENT


@pytest.fixture(scope="module")
def sqs() -> Any:
    """Return what sends one message to the endpoint given, trying ``tries`` times."""
    import botocore.config
    import botocore.session

    session = botocore.session.Session()
    session.set_credentials("key", "secret")

    def send_message(url: str, *, tries: int = 1, body: str | None = "hi") -> None:
        told = botocore.config.Config(
            connect_timeout=SHORT,
            read_timeout=SHORT,
            retries={"total_max_attempts": tries, "mode": "standard"},
        )
        client = session.create_client("sqs", region_name="x", endpoint_url=url, config=told)
        try:
            client.send_message(QueueUrl=f"{url}/queue", MessageBody=body)
        finally:
            client.close()

    return send_message


def test_botocore_without_a_connection_has_sent_nothing(sqs: Any) -> None:
    """E13"""
    closed = f"http://127.0.0.1:{closed_port()}"

    assert meant(lambda: sqs(closed)) is NOT_SENT
    assert meant(lambda: sqs(closed, body=None)) is NOT_SENT  # refused by its own checks
    assert meant(lambda: sqs("http://nobody.invalid")) is NOT_SENT
    with full_port() as port:
        assert meant(lambda: sqs(f"http://127.0.0.1:{port}")) is NOT_SENT


def test_botocore_that_was_heard_is_unknown(sqs: Any, rogue: Rogue, resetting: Rogue) -> None:
    """E11, E13"""
    assert meant(lambda: sqs(f"{rogue.url}/reset-after")) is UNKNOWN
    assert meant(lambda: sqs(f"{rogue.url}/silent")) is UNKNOWN
    assert meant(lambda: sqs(resetting.url)) is UNKNOWN
    with heard_once() as url:
        assert meant(lambda: sqs(url, tries=2)) is UNKNOWN


@pytest.mark.parametrize(
    ("status", "said"),
    [(400, FINAL), (409, REFUSED), (429, REFUSED), (500, UNKNOWN), (503, UNKNOWN)],
)
def test_botocore_says_what_the_status_says(
    sqs: Any, rogue: Rogue, status: int, said: Meaning
) -> None:
    assert meant(lambda: sqs(f"{rogue.url}/{status}")) is said


def test_an_answer_to_botocores_second_try_is_unknown(sqs: Any) -> None:
    """A first try that timed out may have gone through; a refused second one says nothing of it."""
    import botocore.exceptions

    answer = {"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}

    def raised(tries: int) -> None:
        answer["ResponseMetadata"]["RetryAttempts"] = tries - 1  # type: ignore[assignment]
        raise botocore.exceptions.ClientError(answer, "SendMessage")  # type: ignore[arg-type]

    assert meant(lambda: raised(1)) is REFUSED
    assert meant(lambda: raised(2)) is UNKNOWN
