"""django-pglock: what it keeps, and the holes that docs/how-to/from-your-lock.md names."""

from __future__ import annotations

from typing import Any

import pglock
import pytest

from coexist.page import pasted
from onejob import App, NotAcquired, advisory_key

SECTION = "django-pglock"


def gets(other: Any, number: int) -> bool:
    """Tell whether another session can have a lock now, and give it back."""
    [(got,)] = other.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchall()
    if got:
        other.execute("SELECT pg_advisory_unlock(%s)", (number,))
    return bool(got)


def test_a_terminated_session_frees_it_and_the_work_goes_on(alias: str, other: Any) -> None:
    """C19: Django has another connection by then, and the release has nothing to release."""
    from django.db import close_old_connections, connections

    held = pglock.advisory("nightly", using=alias, timeout=0)
    with held as got:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            [pid] = cursor.fetchone()
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        other.execute("SELECT pg_sleep(0.05)")
        close_old_connections()

        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 'the work'")
        taken_by_another = gets(other, held.int_lock_id)

    assert (got, taken_by_another) == (True, True)


def test_a_second_time_in_one_connection_it_succeeds(alias: str, other: Any) -> None:
    """C16"""
    with (
        pglock.advisory("nightly", using=alias, timeout=0) as first,
        pglock.advisory("nightly", using=alias, timeout=0) as second,
    ):
        assert (first, second) == (True, True)
        assert not gets(other, pglock.advisory("nightly").int_lock_id)


@pytest.mark.parametrize("name", ["nightly", "Größe 🕰", "a" * 300])
def test_its_number_can_be_had_without_it(postgres_app: App, name: str) -> None:
    """C22: both libraries would go on taking the same lock."""
    page = pasted(SECTION, app=postgres_app)

    assert page.pglock_number(name) == pglock.advisory(name).int_lock_id
    assert page.pglock_number(name) != advisory_key(name)


def test_its_lock_and_ours_by_that_number_are_one(
    postgres_app: App, alias: str, other: Any
) -> None:
    """C22: a transaction's lock and a session's keep each other out."""
    from django.db import transaction

    from onejob import transaction_lock

    page = pasted(SECTION, app=postgres_app)
    number = page.pglock_number("nightly")

    other.execute("SELECT pg_advisory_lock(%s)", (number,))  # as a process of the old release
    assert not page.nightly_in_one_transaction(alias)
    other.execute("SELECT pg_advisory_unlock(%s)", (number,))

    assert page.nightly_in_one_transaction(alias)
    with transaction.atomic(using=alias):
        assert transaction_lock(alias, number)
        assert not gets(other, number)


def test_in_the_release_that_takes_both_either_is_enough_to_be_refused(
    postgres_app: App, alias: str, other: Any
) -> None:
    from django.db import OperationalError

    page = pasted(SECTION, app=postgres_app)
    number = page.pglock_number("nightly")

    other.execute("SELECT pg_advisory_lock(%s)", (number,))
    with pytest.raises(OperationalError), page.both_in_django(alias):
        pass
    other.execute("SELECT pg_advisory_unlock(%s)", (number,))
    with postgres_app.lock("nightly"), pytest.raises(NotAcquired), page.both_in_django(alias):
        pass
    assert gets(other, number)
    with page.both_in_django(alias) as lease:
        assert lease.token
        assert not gets(other, number)
