"""The acts, with real processes: the first three send duplicates, onejob never does."""

from __future__ import annotations

import psycopg
import pytest

from demo.conftest import played
from onejob.demo.acts import with_onejob


@pytest.mark.parametrize("seed", [1, 2])
def test_three_timers_send_every_email_three_times(seed: int) -> None:
    """A01, A04: each replica's own timer fires."""
    result = played("naive", seed=seed)

    assert (result.emails, result.duplicates, result.missing) == (600, 400, 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_restarted_worker_does_the_same_job_again(seed: int) -> None:
    result = played("naive-restart", seed=seed)

    assert (result.replicas, result.kills, result.missing) == (1, 1, 0)
    assert 20 <= result.duplicates <= 181
    assert result.emails == 200 + result.duplicates


@pytest.mark.parametrize("seed", [1, 2])
def test_a_lock_alone_sends_duplicates_when_its_holder_stands_still(seed: int) -> None:
    """C09: a pause longer than the lease, two writers."""
    result = played("lock-only", seed=seed)

    assert (result.pauses, result.missing) == (1, 0)
    assert result.duplicates > 0


def test_a_lock_alone_is_enough_as_long_as_nothing_stands_still() -> None:
    result = played("lock-only", seed=1, faults=False)

    assert (result.duplicates, result.missing, result.pauses) == (0, 0, 0)


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak)]
)
def test_onejob_sends_each_email_once_though_one_is_killed_and_one_frozen(seed: int) -> None:
    result = played("onejob", seed=seed)

    assert result.trouble == ""
    assert (result.kills, result.pauses) == (1, 1)
    assert (result.emails, result.duplicates, result.missing) == (200, 0, 0)
    # Three replicas had a part in it: the killed one, the frozen one, and who finished.
    assert len({lane.name for lane in result.timeline.lanes}) == 3


@pytest.mark.slow
def test_onejob_does_the_same_on_postgresql_and_leaves_nothing_there(postgres_url: str) -> None:
    result = played("onejob", seed=4, url=postgres_url)

    assert result.trouble == ""
    assert (result.kills, result.pauses) == (1, 1)
    assert (result.emails, result.duplicates, result.missing) == (200, 0, 0)
    with psycopg.connect(postgres_url) as connection:
        left = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'demo_%'"
        ).fetchall()
    assert left == []


def test_onejob_needs_no_fault_to_send_each_email_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says to an application of the user's own is not meant for the demo."""
    monkeypatch.setenv("ONEJOB_DISABLED", "1")
    monkeypatch.setenv("ONEJOB_URL", "sqlite:////no/such/folder/onejob.db")

    result = played("onejob", seed=1, faults=False)

    assert (result.emails, result.asked, result.duplicates, result.missing) == (200, 200, 0, 0)


def test_replicas_that_come_up_after_the_fire_time_are_started_anew_with_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A schedule never fills up what lies before its first deploy: there would be no run at all."""
    monkeypatch.setattr(with_onejob, "UNTIL_FIRE_TIME", (-60, 2))

    result = played("onejob", seed=1)

    assert result.trouble == ""
    assert (result.kills, result.pauses) == (1, 1)
    assert (result.emails, result.duplicates, result.missing) == (200, 0, 0)


def test_a_machine_too_busy_for_the_demo_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_onejob, "UNTIL_FIRE_TIME", (-60,))

    result = played("onejob", seed=1, faults=False)

    assert "too busy" in result.trouble
    assert result.emails == 0


@pytest.mark.soak
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
@pytest.mark.parametrize("seed", range(50))
def test_onejob_sends_each_email_once_wherever_the_blows_fall(
    seed: int, store: str, request: pytest.FixtureRequest
) -> None:
    url = "" if store == "sqlite" else request.getfixturevalue("postgres_url")

    result = played("onejob", seed=seed, url=url)

    assert result.trouble == ""
    assert (result.kills, result.pauses) == (1, 1)
    assert (result.emails, result.duplicates, result.missing) == (200, 0, 0)
