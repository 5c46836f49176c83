"""What the timelines of ``onejob demo`` need beside them to be read."""

from __future__ import annotations

from onejob.demo.table import BARS, FROZEN_HOLDER, LEGEND, MARKS


def test_the_legend_explains_every_sign_within_80_columns() -> None:
    signs = {sign for sign, _ in (*BARS.values(), FROZEN_HOLDER, *MARKS.values())}

    assert {sign for sign in signs if sign not in LEGEND} == set()
    assert len(LEGEND) <= 80
