"""The pause exercise: a lease shorter than its holder's pause, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from onejob.core.time import SECOND, Span
from onejob.demo.pause.outcome import PauseResult, held, verdict
from onejob.demo.pause.plan import PausePlan
from onejob.demo.pause.play import play
from onejob.demo.pause.show import page
from onejob.errors import UsageError

DEMO = [sys.executable, "-c", "from onejob.cli import main; main()", "demo", "pause"]
SHORT = ("--ttl", "1s", "--pause", "1300ms")


def played(monkeypatch: pytest.MonkeyPatch, way: str, url: str, stall: str) -> PauseResult:
    monkeypatch.setattr("onejob.demo.pause.plan.WAYS", (way,))
    plan = PausePlan(url, Span(SECOND), Span(SECOND * 13 // 10), stall)  # type: ignore[arg-type]
    [result] = play(plan, began=lambda way: None, ended=lambda result: None)
    assert result.trouble == ""
    return result


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "stall"),
    [("sqlite", "freeze"), ("redis", "network")],
    indirect=["url"],
)
def test_a_bare_lock_lets_the_late_write_land_and_frees_anothers(
    monkeypatch: pytest.MonkeyPatch, url: str, stall: str
) -> None:
    """C01, C09, C02: the pause is longer than the lease."""
    result = played(monkeypatch, "bare-lock", url, stall)

    assert (result.landed, result.late, result.freed_another) == (2, 1, True)
    assert {holding.who for holding in result.holders} == {"first", "second", "third"}


@pytest.mark.slow
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_token_compared_only_at_the_write_overlooks_whoever_writes_first(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """C09: the overtaken one writes before the new holder does."""
    result = played(monkeypatch, "token-at-write", url, "freeze")

    assert (result.landed, result.late) == (2, 1)
    assert [write.who for write in result.writes] == ["first", "second"]


@pytest.mark.slow
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_an_advisory_lock_is_freed_in_time_and_the_effect_outside_lands_twice(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """C14, C23"""
    result = played(monkeypatch, "advisory-lock", url, "freeze")

    assert (result.landed, result.late) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "stall"),
    [("sqlite", "freeze"), ("postgres", "network"), ("redis", "freeze")],
    indirect=["url"],
)
def test_a_fenced_lease_refuses_the_late_write_and_says_who_did(
    monkeypatch: pytest.MonkeyPatch, url: str, stall: str
) -> None:
    """A13, C09, C19"""
    result = played(monkeypatch, "lease-fenced", url, stall)

    assert (result.landed, result.late, result.freed_another) == (1, 0, False)
    [refused] = [write for write in result.writes if not write.landed]
    assert refused.who == "first"
    assert "the document: token" in refused.why
    assert result.safe


@pytest.mark.slow
@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_with_a_ledger_the_late_write_is_a_duplicate(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """C14, E24"""
    result = played(monkeypatch, "lease-ledger", url, "freeze")

    assert (result.landed, result.late) == (1, 0)
    assert "duplicate" in result.writes[-1].why


@pytest.mark.slow
def test_the_json_is_one_document_and_the_page_draws_every_way(tmp_path: Path) -> None:
    out = tmp_path / "pause.html"
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    done = subprocess.run(
        [*DEMO, *SHORT, "--json", "--html", str(out)],
        capture_output=True,
        text=True,
        timeout=55,
        env={**os.environ, "TMPDIR": str(temporary), "ONEJOB_URL": ""},
    )

    document = json.loads(done.stdout)
    acts = {act["name"]: act for act in document["acts"]}
    assert done.returncode == 0, done.stderr
    assert list(acts) == ["bare-lock", "token-at-write", "lease-fenced", "lease-ledger"]
    assert acts["bare-lock"]["late"] == 1
    assert [holding["who"] for holding in acts["lease-fenced"]["holders"]] == ["first", "second"]
    assert acts["lease-fenced"]["safe"]
    assert "A pause of 1.3 s in a lease of 1 s" in document["verdict"]
    assert out.read_text().count('<svg viewBox="0 0 720') == 4
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"url": "memory://"}, "not written for memory://"),
        ({"url": "mariadb://root@127.0.0.1/test"}, "not written for mariadb://"),
        ({"ttl": Span(SECOND // 2)}, "too short for a lease"),
        ({"pause": Span(3 * SECOND)}, "must be longer than --ttl"),
        ({"pause": Span(3_600 * SECOND)}, "at most"),
        ({"stall": "network"}, "no network to stall"),
    ],
)
def test_what_cannot_be_played_is_said_before_anything_starts(
    changed: dict[str, object], said: str
) -> None:
    plan = PausePlan(**{"url": "sqlite:///x.db", **changed})  # type: ignore[arg-type]

    with pytest.raises(UsageError, match=said):
        plan.check()


def test_a_late_write_of_ours_is_called_a_bug() -> None:
    from dataclasses import replace

    from onejob.demo.pause.outcome import Written
    from onejob.demo.timeline import Timeline

    fenced = PauseResult("lease-fenced", "sqlite", "freeze", 1, 2, (), (), 2.0, Timeline(2.0, ()))
    good = replace(fenced, writes=(Written("second", 1.0, 2, True, False),))
    bad = replace(good, writes=(*good.writes, Written("first", 2.0, 1, True, True)))

    assert held([good])
    assert not held([bad])
    assert "a bug" in verdict([bad])
    assert "<script" not in page([replace(good, writes=(Written("<script>", 1, 2, False, True),))])
