"""The script of docs/how-to/fencing.md that guards a value in Redis, on a server."""

from __future__ import annotations

import redis

from docs.blocks import ROOT, blocks

[SCRIPT] = [
    block.text for block in blocks(ROOT / "docs/how-to/fencing.md") if block.language == "lua"
]


def test_an_older_token_changes_nothing(redis_url: str, redis_schema: str) -> None:
    """C09"""
    key = f"{{{redis_schema}}}:stock"
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        write = client.register_script(SCRIPT)

        answers = [
            write(keys=[key], args=[token, value])
            for token, value in ((7, "a"), (7, "b"), (2**53 - 1, "c"), (9, "late"))
        ]

        assert answers == [1, 1, 1, 0]
        assert client.hgetall(key) == {"token": str(2**53 - 1), "value": "c"}
