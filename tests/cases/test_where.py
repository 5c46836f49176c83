from __future__ import annotations

from cases import where
from cases.later import LATER


def test_every_case_is_shown_or_has_its_subject() -> None:
    """Of 154 cases none is forgotten."""
    places = where.shown()

    assert len(where.cases()) == 154
    assert [case for case in where.cases() if not (places.get(case) or case in LATER)] == []
    assert set(places) | set(LATER) <= set(where.cases())


def test_the_table_of_cases_is_up_to_date() -> None:
    """To write it anew: ``PYTHONPATH=tests python tests/cases/where.py``."""
    assert where.README.read_text(encoding="utf-8") == where.table()
