"""What becomes of claims outside runs later: they are read, listed, and purged in time."""

from __future__ import annotations

from typing import Any

from onejob.commands import claims, ledger
from onejob.core.time import HOUR
from onejob.testing.conformance.claims import LAPSED, held
from onejob.testing.conformance.given import KEEP, LEASE, NOW, Run


def test_claims_are_purged_after_their_time_and_not_before(run: Run) -> None:
    """E25: done, given back or abandoned; to the microsecond."""
    done, freed = held(run, "a", key="done"), held(run, "a", key="freed")
    held(run, "a", key="abandoned")
    assert run(claims.end(done, keep=KEEP, now=LAPSED))
    assert run(claims.release(freed, keep=KEEP, now=LAPSED))

    assert run(ledger.purge(limit=10, now=LAPSED + KEEP)) == 0
    assert run(ledger.purge(limit=10, now=LAPSED + KEEP + 1)) == 3
    assert run(claims.listed(claims.PERIOD, now=NOW)) == ()


def test_a_claim_that_is_held_outlives_what_it_would_have_been_kept_for(run: Run) -> None:
    """C04: a period's work may take longer than its key is kept."""
    claim = held(run, "a")
    much_later = LAPSED + KEEP + HOUR
    assert run(claims.renew([(claim, LEASE)], now=much_later)) == {"a"}

    assert run(ledger.purge(limit=10, now=much_later)) == 0

    assert run(claims.end(claim, keep=KEEP, now=much_later))


def test_reading_claims_finds_exactly_the_keys_asked_for(run: Run) -> None:
    for key in ("1", "2", "3"):
        held(run, "a", key=key)
    held(run, "a", scope="other", key="1")
    held(run, "a", kind=claims.TICK, key="1")

    found = run(claims.read(claims.PERIOD, "digest", ["3", "1", "9"], now=NOW))

    assert [(view.kind, view.scope, view.key) for view in found] == [
        ("period", "digest", "1"),
        ("period", "digest", "3"),
    ]


def test_claims_are_listed_latest_first_and_the_lapsed_ones_apart(run: Run) -> None:
    """P7: what was abandoned waits for the next who asks, and can be seen to wait."""
    for n, key in enumerate(("b", "a", "c")):
        held(run, "a", key=key, now=NOW + n)
    firing, done = held(run, "a", key="firing"), held(run, "a", key="done")
    assert run(claims.mark(firing, lease=LEASE, now=NOW))
    assert run(claims.end(done, keep=KEEP, now=NOW))
    held(run, "a", scope="other", key="z", now=NOW - 1)

    def keys(**fields: Any) -> list[str]:
        return [view.key for view in run(claims.listed(claims.PERIOD, now=LAPSED, **fields))]

    assert keys() == ["c", "a", "b", "done", "firing", "z"]
    assert keys(limit=2) == ["c", "a"]
    assert keys(scope="other") == ["z"]
    assert keys(lapsed=True) == ["b", "firing", "z"]
    assert [view.lapsed for view in run(claims.listed(claims.PERIOD, now=LAPSED))] == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]
