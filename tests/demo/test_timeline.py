"""Timelines, figures, the verdict and the page: values in, values out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rich.console import Console

from onejob.demo.acts import ACTS
from onejob.demo.captions import WITH_FAULTS, WITHOUT_FAULTS
from onejob.demo.page import page
from onejob.demo.processes import Mark
from onejob.demo.provider import Asked
from onejob.demo.result import Result, counted, verdict
from onejob.demo.stage import Hold
from onejob.demo.table import drawn
from onejob.demo.timeline import Bar, timeline

LINE = timeline(
    [
        ("replica 1", [Mark(100.0, "start"), Mark(104.0, "kill")]),
        ("replica 2", [Mark(100.0, "start"), Mark(106.0, "freeze"), Mark(108.0, "thaw")]),
    ],
    [Asked(103.0, "replica 1", 1, True), Asked(103.1, "replica 1", 2, True)],
    [Hold("replica 1", 102.0, 105.0), Hold("replica 2", 105.0, 107.0)],
    began=100.0,
    ended=110.0,
)

GOOD = Result(
    name="onejob", replicas=3, customers=200, emails=200, asked=201, duplicates=0, missing=0,
    kills=1, pauses=1, seconds=10.0, timeline=LINE,
)  # fmt: skip
NAIVE = replace(GOOD, name="naive", emails=600, asked=600, duplicates=400, kills=0, pauses=0)


def test_a_lane_has_what_its_replica_lived_held_and_sent() -> None:
    first, second = LINE.lanes

    assert [(bar.what, bar.since, bar.until) for bar in first.bars][:2] == [
        ("alive", 0.0, 4.0), ("held", 2.0, 5.0),
    ]  # fmt: skip
    assert [bar.what for bar in first.bars] == ["alive", "held", "sent"]
    assert Bar("frozen", 6.0, 8.0) in second.bars
    assert Bar("alive", 0.0, 10.0) in second.bars
    assert [mark.what for mark in second.marks] == ["freeze", "thaw"]


def test_a_lane_is_drawn_to_scale_with_its_marks() -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(drawn(GOOD, columns=20))

    _, first, second = captured.get().splitlines()
    assert first.strip() == "replica 1 ────▒▒█▒✗▒▒"
    assert second.rstrip().endswith("▒▒‖░░·▸───")


def test_emails_duplicates_and_missing_are_counted_by_customer() -> None:
    assert counted(Counter({0: 1, 1: 3}), 3) == (4, 2, 1)
    assert counted(Counter({0: 1, 1: 1}), 2) == (2, 0, 0)


def test_the_verdict_is_one_sentence_that_does_not_flatter() -> None:
    lost = replace(GOOD, missing=2, duplicates=1)
    stuck = replace(GOOD, trouble="the end of the run: not within 50 s")

    assert verdict([NAIVE, GOOD]) == (
        "onejob: each of 200 customers got exactly one email, with 1 replica killed and 1 frozen "
        "past its lease; the other ways sent 400 duplicates."
    )
    assert "1 duplicates and missed 2" in verdict([NAIVE, lost])
    assert "did not come to its end" in verdict([NAIVE, stuck])
    assert not lost.once
    assert not stuck.once


def test_the_page_is_self_contained_and_escaped() -> None:
    bad = replace(GOOD, trouble="<script>alert(1)</script>")

    text = page([NAIVE, bad], seed=7, faults=True)

    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not any(word in text for word in ("http://", "https://", "src=", "@import", "url("))
    assert text.count("<svg") >= 2
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_every_act_has_its_captions() -> None:
    assert set(ACTS) == set(WITH_FAULTS) == set(WITHOUT_FAULTS)
