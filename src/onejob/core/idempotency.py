"""Requests that carry an idempotency key: which key, which content, and what is kept of an answer.

The header is that of draft-ietf-httpapi-idempotency-key-header: a structured-field string,
``Idempotency-Key: "8e03978e-40d5"``. Many clients send it without the quotes, which is read alike.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias, cast

from onejob.core.fingerprint import fingerprint
from onejob.core.meaning import Meaning, of_status
from onejob.errors import UsageError

HEADER: Final = "Idempotency-Key"
#: In an answer that is told again.
REPLAYED: Final = "Idempotent-Replayed"

#: Characters of a key, all of them ASCII.
KEY_MAX: Final = 255

# What a structured field's string may have in it, and what is left of that without the quotes.
_QUOTED: Final = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_BARE: Final = re.compile(r"[!#-+\--:<-\[\]-~]+")

#: JSON up to this many bytes is compared by content; that takes time, so larger ones byte by byte.
JSON_BYTES_MAX: Final = 65_536

#: Never told again: cookies are one client's own, and the rest belongs to one connection or moment.
NEVER_REPLAYED: Final = frozenset(
    {
        *("set-cookie", "set-cookie2", "authentication-info", "proxy-authentication-info"),
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"),
        *("upgrade", "proxy-authenticate", "proxy-authorization"),
        *("content-length", "date", "server"),
    }
)

OnFailure: TypeAlias = Literal["unknown", "release", "keep"]


def read_key(header: str) -> str:
    """Return the key that a header names, or raise UsageError that says what is wrong with it."""
    text = header.strip(" \t")
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        key = re.sub(r"\\(.)", r"\1", quoted[1])
    elif _BARE.fullmatch(text):
        key = text
    else:
        raise UsageError(
            f'{HEADER} must be one text in double quotes, such as "8e03978e-40d5-43dd-bc93", or '
            "the same without the quotes and without spaces, commas, semicolons and backslashes; "
            "printable ASCII only, and sent once."
        )
    if not key.strip() or key != key.strip():
        raise UsageError(f"{HEADER} is blank, or has space around it. Name the work that is asked.")
    if len(key) > KEY_MAX:
        raise UsageError(f"{HEADER} has {len(key)} characters, the limit is {KEY_MAX}.")
    return key


def caller_name(caller: str) -> str:
    """Return the name under which a caller's keys stand: whoever reads it learns no secret."""
    return sha256(b"caller\0" + caller.encode(errors="surrogatepass")).hexdigest()


def content(method: str, path: str, query: str, media: str, body: bytes) -> str:
    """Return the hash of what a request asks, the same however its client wrote it down.

    JSON of up to 65,536 bytes is compared by content: objects in any order, numbers by value (1 and
    1.0 differ). Of a form with files, the boundary, new in each request, does not count.
    """
    kind, _, parameters = media.partition(";")
    kind = kind.strip().lower()
    told = f"bytes:{sha256(body).hexdigest()}"
    if kind == "application/json" or kind.endswith("+json"):
        if len(body) <= JSON_BYTES_MAX:
            told = _of_json(body) or told
    elif kind.startswith("multipart/"):
        boundary = re.search(r'boundary="?([^\s";,]{1,70})', parameters, re.IGNORECASE)
        if boundary:
            parts = body.split(b"--" + boundary[1].encode("latin-1", "replace"))
            told = f"parts:{sha256(_joined(parts)).hexdigest()}"
    return fingerprint([method, path, query, kind, told])


def _of_json(body: bytes) -> str | None:
    """Return a hash of the value; None where two readers could take the text differently."""
    try:
        value = json.loads(body, parse_float=Decimal, object_pairs_hook=_unambiguous)
        return f"json:{fingerprint(value)}"
    except (ValueError, ArithmeticError, RecursionError):
        return None  # not JSON, or a name twice in one object, or no number: then byte by byte


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return made


def _joined(parts: Sequence[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


class Fate(StrEnum):
    """What becomes of a key when its request has been answered."""

    KEEP = "keep"
    RELEASE = "release"
    UNKNOWN = "unknown"


def fate(status: int, on_failure: OnFailure) -> Fate:
    """Decide by the answer's status.

    A refusal of the moment (401, 403, 409, 423, 429 and the like) did nothing and may be otherwise
    the next time, so its key is free again. Any other answer below 500 is *the* answer. From 500
    on, the service failed at an unknown point, unless its owner knows better.
    """
    if status < 400:
        return Fate.KEEP
    match of_status(status):
        case Meaning.FINAL:
            return Fate.KEEP
        case Meaning.UNKNOWN:
            return Fate(on_failure)
        case _:
            return Fate.RELEASE


Headers: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered: ``headers`` as the protocol has them, one character a byte."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class NotKept:
    """The request was carried out, and its answer is not kept: too large, or a stream.

    ``status`` is that answer's, 0 where nobody knows it.
    """

    status: int = 0


def replayable(headers: Iterable[tuple[str, str]], never: Collection[str] = ()) -> Headers:
    """Return the headers that a repeat is told: no cookies, nothing of one connection."""
    given = tuple(headers)
    own = {
        name.strip().lower()
        for key, value in given
        if key.lower() == "connection"
        for name in value.split(",")
    }
    left_out = NEVER_REPLAYED | own | {name.lower() for name in never}
    return tuple((name, value) for name, value in given if name.lower() not in left_out)


def replayed(answer: Answer) -> Headers:
    """Return the headers of an answer that is told again."""
    told = (*answer.headers, (REPLAYED, "true"))
    if answer.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        return told
    return (*told, ("Content-Length", str(len(answer.body))))


def as_result(answer: Answer | NotKept, *, limit: int) -> dict[str, Any]:
    """Return what the ledger keeps of an answer: all of it, or, beyond ``limit`` bytes, only that
    it was given."""
    if isinstance(answer, Answer):
        told: dict[str, Any] = {
            "status": answer.status,
            "headers": [list(header) for header in answer.headers],
        }
        try:
            told["text"] = answer.body.decode()
        except UnicodeDecodeError:
            told["base64"] = base64.b64encode(answer.body).decode()
        # As the store counts it: what is escaped is longer than it was.
        if len(json.dumps(told, ensure_ascii=False).encode()) <= limit:
            return told
    return {"status": answer.status, "kept": False}


def of_result(result: object) -> Answer | NotKept:
    """Return the answer that the ledger keeps; a person's own word on a key is no answer."""
    match result:
        case {"status": int(status), "headers": list(headers), "text": str(text)}:
            return Answer(status, _pairs(headers), text.encode())
        case {"status": int(status), "headers": list(headers), "base64": str(text)}:
            return Answer(status, _pairs(headers), base64.b64decode(text))
        case {"status": int(status)}:
            return NotKept(status)
        case _:
            return NotKept()


def _pairs(headers: list[object]) -> Headers:
    return tuple((name, value) for name, value in cast("list[tuple[str, str]]", headers))
