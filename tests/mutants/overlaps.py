"""The guards of ticks, of schedules put as data and of overlaps, each with what takes it away."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_POSTGRES = "tests/stores/test_conformance_postgres.py"
_WAITS = "tests/stores/test_conformance_postgres_waits.py"
_IN_THE_WAY = "                        AND other.state IN ('scheduled', 'running', 'waiting')\n"


def _sql(guard: str, file: str, old: str, new: str, tests: str) -> Mutant:
    where = f"stores/sql/base/{file}.sql"
    return Mutant(guard, where, old, new, f"{_POSTGRES} {_WAITS} -k '{tests}'", "postgresql")


OVERLAPS = (
    _sql(
        "data replaces no schedule that code declares",
        "schedules",
        "   WHERE s.revision = EXCLUDED.revision - 1\n     AND s.dynamic = 1\n",
        "   WHERE s.revision = EXCLUDED.revision - 1\n",
        "do_not_replace_each_other",
    ),
    _sql(
        "data is replaced at the revision that was read",
        "schedules",
        "   WHERE s.revision = EXCLUDED.revision - 1\n     AND s.dynamic = 1\n",
        "   WHERE s.dynamic = 1\n",
        "exactly_at_the_revision",
    ),
    _sql(
        "a definition in code replaces no data",
        "schedules",
        "   WHERE s.revision = CAST(:revision AS bigint)\n     AND s.dynamic = 0\n",
        "   WHERE s.revision = CAST(:revision AS bigint)\n",
        "do_not_replace_each_other",
    ),
    _sql(
        "a schedule is resumed at the revision that was read",
        "schedules",
        "     AND paused = 1\n     AND revision = CAST(:revision AS bigint)\n",
        "     AND paused = 1\n",
        "is_resumed",
    ),
    _sql(
        "what live code declares is not deleted",
        "schedules",
        "                            AND CAST(r.schedules AS jsonb) ->> s.name IS NOT NULL))\n",
        "                            AND false))\n",
        "live_code_declares",
    ),
    _sql(
        "the end of a run releases what waits behind it",
        "runs",
        "     AND r.state = 'waiting'\n     AND NOT EXISTS",
        "     AND false\n     AND NOT EXISTS",
        "releases_the_one_behind",
    ),
    _sql(
        "what is released has nothing else in its way",
        "runs",
        _IN_THE_WAY,
        "                        AND false\n",
        "last_of_several",
    ),
    _sql(
        "a cancellation waits for nobody who holds the row",
        "overlap",
        "     FOR NO KEY UPDATE OF r SKIP LOCKED\n), ended",
        "     FOR NO KEY UPDATE OF r\n), ended",
        "fenced_run_is_cancelled",
    ),
    _sql(
        "a cancelled attempt ends under its own token",
        "overlap",
        "CASE WHEN state = 'running' THEN token ELSE nextval('{schema}token') END",
        "nextval('{schema}token')",
        "was_cancelled_under_it or makes_its_token_invalid",
    ),
    _sql(
        "a late run is told once",
        "overlap",
        "     SET expect_by = -r.expect_by\n",
        "     SET expect_by = r.expect_by\n",
        "told_once",
    ),
)
