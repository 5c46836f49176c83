"""The guards of named locks, each with the edit that takes it away."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LEASES = "stores/sql/base/leases.sql"
_POSTGRES = "tests/stores/test_conformance_postgres.py"
_RENEWER = "tests/runtime/test_renewer.py"


def _leases(guard: str, old: str, new: str, tests: str) -> Mutant:
    return Mutant(guard, _LEASES, old, new, f"{_POSTGRES} -k '{tests}'", "postgresql")


LOCKS = (
    _leases(
        "a lock changes hands only when its time is over",
        "     AND expires <= {now}\n",
        "",
        "taken_lock_is_refused or lapsed_is_taken",
    ),
    _leases(
        "the token is drawn by the row that changes hands",
        "     SET token = nextval('{schema}token'),\n         owner = :owner,",
        "     SET owner = :owner,",
        "each_change_of_holder",
    ),
    _leases(
        "the quick way is for what was given back",
        "                  AND owner = ''\n",
        "",
        "only_for_a_lock_that_was_given_back",
    ),
    _leases(
        "the quick way asks for the lock that a fence keeps out",
        "                  FOR UPDATE SKIP LOCKED)\n",
        "                  FOR NO KEY UPDATE SKIP LOCKED)\n",
        "quick_way_is_shut",
    ),
    _leases(
        "a renewal compares the token",
        "   AND l.token = given.token\n",
        "",
        "wrong_in_one_part",
    ),
    _leases(
        "a renewal compares the owner",
        "   AND l.owner = given.owner\n",
        "",
        "wrong_in_one_part",
    ),
    _leases(
        "a lease that has lapsed is not revived",
        "   AND l.owner = given.owner\n   AND l.expires > {now}\n",
        "   AND l.owner = given.owner\n",
        "not_revived",
    ),
    _leases(
        "a release compares the token",
        "   AND token = CAST(:token AS bigint)\n   AND owner IN (:owner, '')\nRETURNING name,",
        "   AND owner IN (:owner, '')\nRETURNING name,",
        "wrong_in_one_part",
    ),
    _leases(
        "a release compares the owner",
        "   AND token = CAST(:token AS bigint)\n   AND owner IN (:owner, '')\nRETURNING name,",
        "   AND token = CAST(:token AS bigint)\nRETURNING name,",
        "wrong_in_one_part or free_at_once",
    ),
    _leases(
        "a released lock is kept for its minimum",
        "THEN expires ELSE GREATEST({now}, hold_until) END",
        "THEN expires ELSE {now} END",
        "kept_for_its_minimum",
    ),
    _leases(
        "a lock's fence outlives its statement",
        "   FOR KEY SHARE\n",
        "",
        "while_its_fenced_transaction_is_open",
    ),
    _leases(
        "a takeover asks for the lock that a fence keeps out",
        "     FOR UPDATE SKIP LOCKED\n), taken",
        "     FOR NO KEY UPDATE SKIP LOCKED\n), taken",
        "while_its_fenced_transaction_is_open",
    ),
    _leases(
        "a lock is not taken while somebody writes at its resource",
        "     AND (SELECT count(*) FROM clear)\n"
        "       = (SELECT count(*) FROM {schema}fence\n"
        "           WHERE scope = :scope\n"
        "             AND resource IN (SELECT resource FROM given))\n",
        "",
        "open_at_its_resource or nobody_waits_for_a_lock",
    ),
    _leases(
        "only the holder that was looked at is broken",
        "     AND token = CAST(:token AS bigint)\n     AND expires > {now}\n",
        "     AND expires > {now}\n",
        "holder_that_was_looked_at",
    ),
    Mutant(
        "a resource refuses a token that is older than the one it knows",
        "stores/sql/base/fences.sql",
        " WHERE f.token <= EXCLUDED.token\n",
        "",
        f"{_POSTGRES} -k older_one_is_refused",
        "postgresql",
    ),
    Mutant(
        "a lock's renewal counts from before it was asked for",
        "runtime/renewer.py",
        "                    held.extend(asked_at)\n",
        "                    held.extend(now)\n",
        _RENEWER,
    ),
    Mutant(
        "a reply after a lock's deadline brings nothing back",
        "runtime/renewer.py",
        "                if now >= held.deadline:\n                    self._lose(held, LATE)\n"
        "                elif held.owner in holders:",
        "                if held.owner in holders:",
        _RENEWER,
    ),
    Mutant(
        "what the store does not confirm is lost",
        "runtime/renewer.py",
        "                    self._lose(held, _REFUSED)\n",
        "                    held.extend(asked_at)\n",
        _RENEWER,
    ),
    Mutant(
        "a holder looks at its own clock",
        "runtime/held.py",
        '        return LATE if now >= self.deadline else ""\n',
        '        return ""\n',
        _RENEWER,
    ),
    Mutant(
        "a forked child gives back no lock of its parent's",
        "lock.py",
        '        if held.is_inherited:\n            return "", None\n',
        "",
        "tests/api/test_lock_processes.py -k 'forked and sqlite'",
    ),
)
