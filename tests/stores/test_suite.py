"""The suite leaves none of its own tests out."""

from __future__ import annotations

from onejob.testing import conformance
from onejob.testing.conformance.suite import SUBJECTS


def test_a_store_that_can_answer_everything_is_asked_everything() -> None:
    written = {name for subject in SUBJECTS for name in vars(subject) if name.startswith("test_")}

    assert set(conformance.tests("run", "sessions", "row_sessions")) == written
