"""Who may define a schedule while two versions of the code are alive; and which is newer."""

from __future__ import annotations

import itertools

import pytest

from onejob.core.adoption import (
    SUPERSEDED_MAX,
    Adoption,
    Create,
    Declaration,
    Leave,
    Replace,
    Same,
    Stored,
    adopt,
)
from onejob.core.version import version_key
from onejob.errors import UsageError


def decide(declared: Declaration, stored: Stored | None, *live: str) -> Adoption:
    return adopt(declared=declared, stored=stored, live_definitions=frozenset(live))


def test_what_is_not_stored_is_created_and_what_is_the_same_stays() -> None:
    assert decide(Declaration("a"), None) == Create()
    assert decide(Declaration("a", "1"), Stored("a", "2")) == Same()


def test_an_older_process_cannot_write_its_definition_back() -> None:
    """A16."""
    stored = Stored("new", superseded=("old",))

    assert isinstance(decide(Declaration("old"), stored, "old", "new"), Leave)


def test_a_rollback_returns_once_nobody_declares_the_successor() -> None:
    """A16."""
    stored = Stored("new", superseded=("older", "old"))

    assert decide(Declaration("old"), stored, "old") == Replace(("older", "new"))


def test_a_definition_never_seen_is_news() -> None:
    assert decide(Declaration("b"), Stored("a"), "a", "b") == Replace(("a",))


def test_a_higher_version_wins_and_a_lower_one_leaves() -> None:
    stored = Stored("new", "1.10", superseded=("old",))

    assert decide(Declaration("old", "1.11"), stored, "new") == Replace(("new",))
    lower = decide(Declaration("other", "1.9"), stored, "other", "new")
    assert lower == Leave("version 1.10 defined it, this is version 1.9")


def test_a_lower_version_returns_once_nobody_declares_the_higher_ones() -> None:
    """A16: a rollback, whether its definition was known before or not."""
    stored = Stored("new", "2.0", superseded=("old",))

    assert decide(Declaration("old", "1.0"), stored, "old") == Replace(("new",))
    assert decide(Declaration("other", "1.0"), stored, "other") == Replace(("old", "new"))


def test_equal_or_absent_versions_decide_nothing() -> None:
    stored = Stored("new", "2", superseded=("old",))

    for version in ("2", "2.0", None):
        assert isinstance(decide(Declaration("old", version), stored, "new"), Leave)
        assert decide(Declaration("x", version), stored, "new") == Replace(("old", "new"))


def test_the_memory_of_superseded_definitions_is_bounded() -> None:
    many = tuple(str(n) for n in range(SUPERSEDED_MAX))

    answer = decide(Declaration("new"), Stored("current", superseded=many))

    assert answer == Replace((*many[1:], "current"))


def test_versions_stand_in_the_order_of_pep_440() -> None:
    ascending = [
        "0",
        "0.9",
        "1.0.dev1",
        "1.0a1.dev1",
        "1.0a1",
        "1.0a1.post1",
        "1.0a2",
        "1.0b1",
        "1.0rc1",
        "1.0rc2",
        "1.0",
        "1.0.post1.dev1",
        "1.0.post1",
        "1.0.1",
        "1.2",
        "1.10",
        "2026.3.1",
        "1!0.1",
    ]
    keys = [version_key(version) for version in ascending]

    assert all(one < other for one, other in itertools.pairwise(keys))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (7, "7"),
        ("1.0", "1.0.0"),
        ("v1.2", "1.2"),
        ("1.0-rc.1", "1.0rc1"),
        ("1.0-1", "1.0.post1"),
        ("1.0.RC1", "1.0c1"),
        ("1.0alpha", "1.0a0"),
        ("1.0+build.7", "1.0"),
    ],
)
def test_versions_that_say_the_same_are_equal(one: int | str, other: int | str) -> None:
    assert version_key(one) == version_key(other)


@pytest.mark.parametrize("bad", ["", "latest", "1.x", "1.0 beta", "-1", -1, True, "1" * 200, None])
def test_a_version_without_an_order_is_refused(bad: object) -> None:
    with pytest.raises(UsageError, match="cannot be ordered"):
        version_key(bad)  # type: ignore[arg-type]  # wrong on purpose
