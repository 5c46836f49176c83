"""Which key a header names, which requests are the same, and what is kept of an answer."""

from __future__ import annotations

import json

import pytest

from onejob import UsageError
from onejob.core.idempotency import (
    JSON_BYTES_MAX,
    Answer,
    Fate,
    NotKept,
    as_result,
    caller_name,
    content,
    fate,
    of_result,
    read_key,
    replayable,
    replayed,
)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ('"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ('  "order 7"\t', "order 7"),
        (r'"a\"b\\c"', r'a"b\c'),
        ("order:7/try@1=+~", "order:7/try@1=+~"),
        ("x" * 255, "x" * 255),
        (f'"{"x" * 255}"', "x" * 255),
    ],
)
def test_a_key_is_read_with_and_without_its_quotes(header: str, key: str) -> None:
    assert read_key(header) == key


@pytest.mark.parametrize(
    "header",
    [
        *("", " ", '""', '" "', '" a"', '"a "', '"a', 'a"', '"a" "b"', '"a", "b"', "a, b", "a b"),
        *('"a";n=1', "a;n=1", "a\\b", '"a\\b"', "a\x00", '"a\n"', "\u200b", '"gr\u00fcn"', "1,2"),
        *("x" * 256, f'"{"x" * 256}"', ":YWJj:,"),
    ],
)
def test_what_is_no_key_is_refused(header: str) -> None:
    """E14: blank, over-long, doubled, or nothing that can be seen."""
    with pytest.raises(UsageError, match="Idempotency-Key"):
        read_key(header)


def asked(body: bytes | str, *, media: str = "application/json", path: str = "/o") -> str:
    data = body.encode() if isinstance(body, str) else body
    return content("POST", path, "", media, data)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}'),
        ('{"a": [1.50]}', '{"a": [1.5]}'),
        ('"\\u00fc"', '"\u00fc"'),
    ],
)
def test_the_same_content_in_another_form_is_the_same_request(one: str, other: str) -> None:
    """E17"""
    assert asked(one) == asked(other, media="Application/JSON; charset=utf-8")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("1", '"1"'),
        ("[1, 2]", "[2, 1]"),
        ("0.1", "0.1000000000000000055"),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
        ("NaN", "nan"),
        ("1e999999999999999999999", "1e999999999999999999998"),
        ("[" * 5_000, "[" * 4_999),
        ('{"a": "\\ud800"}', '{"a": "\\ud801"}'),
    ],
)
def test_other_content_is_another_request(one: str, other: str) -> None:
    """E17: also where two readers could take a text differently, or it is no JSON at all."""
    assert asked(one) != asked(other)


def test_method_path_query_and_kind_are_part_of_the_request() -> None:
    """E15"""
    base = content("POST", "/a", "", "text/plain", b"1")

    others = {
        content("PATCH", "/a", "", "text/plain", b"1"),
        content("POST", "/b", "", "text/plain", b"1"),
        content("POST", "/a", "x", "text/plain", b"1"),
        content("POST", "/a", "", "application/json", b"1"),
        content("POST", "/a", "", "text/plain", b"2"),
    }
    assert len(others | {base}) == 6


def test_large_json_is_compared_byte_by_byte() -> None:
    filler = "x" * JSON_BYTES_MAX

    assert asked(f'["{filler}"]') != asked(f'[ "{filler}"]')


def form(boundary: str, value: str) -> str:
    part = f'--{boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n{value}\r\n'
    return asked(f"{part}--{boundary}--\r\n", media=f"multipart/form-data; boundary={boundary}")


def test_a_form_that_is_sent_again_has_another_boundary_and_is_the_same() -> None:
    assert form("aaa", "1") == form("bbb", "1")
    assert form("aaa", "1") != form("aaa", "2")


@pytest.mark.parametrize(
    ("status", "found"),
    [
        *((status, Fate.KEEP) for status in (200, 201, 204, 302, 400, 402, 404, 410, 422)),
        *((status, Fate.RELEASE) for status in (401, 403, 409, 423, 425, 429)),
        *((status, Fate.UNKNOWN) for status in (408, 500, 502, 503, 504)),
    ],
)
def test_the_status_decides_what_becomes_of_the_key(status: int, found: Fate) -> None:
    assert fate(status, "unknown") is found


def test_who_knows_what_a_failure_means_says_so() -> None:
    assert fate(500, "release") is Fate.RELEASE
    assert fate(500, "keep") is Fate.KEEP
    assert fate(201, "release") is Fate.KEEP


@pytest.mark.parametrize("body", [b"", b'{"order": 7}', "\u00fc\0".encode(), bytes(range(256))])
def test_an_answer_comes_back_as_it_was_kept(body: bytes) -> None:
    answer = Answer(201, (("Location", "/o/7"), ("X-Letters", "\xe9")), body)

    kept = json.loads(json.dumps(as_result(answer, limit=10_000)))

    assert of_result(kept) == answer


def test_an_answer_beyond_the_limit_is_not_kept_in_part() -> None:
    answer = Answer(201, (), b"\x01" * 1_000)

    assert of_result(as_result(answer, limit=2_000)) == NotKept(201)


@pytest.mark.parametrize("word", [None, "done by hand", {"status": "x"}, 7])
def test_a_persons_word_on_a_key_is_no_answer(word: object) -> None:
    assert of_result(word) == NotKept()


def test_cookies_and_what_belongs_to_one_connection_are_not_told_again() -> None:
    headers = [
        ("Set-Cookie", "session=1"),
        ("set-cookie", "other=1"),
        ("Connection", "X-Hop, close"),
        ("X-Hop", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "5"),
        ("Date", "today"),
        ("X-CSRF-Token", "1"),
        ("Content-Type", "text/plain"),
        ("Link", "<a>"),
        ("Link", "<b>"),
    ]

    left = replayable(headers, ["x-csrf-token"])

    assert left == (("Content-Type", "text/plain"), ("Link", "<a>"), ("Link", "<b>"))


def test_an_answer_without_content_gets_no_length() -> None:
    assert ("Content-Length", "0") in replayed(Answer(200, (), b""))
    assert dict(replayed(Answer(204, (), b""))) == {"Idempotent-Replayed": "true"}


def test_a_callers_name_tells_nothing_of_its_secret() -> None:
    assert caller_name("Bearer s3cret") == caller_name("Bearer s3cret")
    assert caller_name("Bearer s3cret") != caller_name("Bearer other")
    assert "s3cret" not in caller_name("Bearer s3cret")
