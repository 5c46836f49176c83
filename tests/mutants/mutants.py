"""Guards, each with the edit that takes it away and the tests that must notice.

A guard that can be removed without a failing test is a guard that nobody has proved. The edit is
made in a copy of the package; the tests named beside it run against that copy and must fail.
"""

from __future__ import annotations

from tests.mutants.effects import EFFECTS
from tests.mutants.guarded import GUARDED
from tests.mutants.locks import LOCKS
from tests.mutants.mutant import Mutant
from tests.mutants.overlaps import OVERLAPS
from tests.mutants.requests import REQUESTS

_POSTGRES = "tests/stores/test_conformance_postgres.py"
_WAITS = "tests/stores/test_conformance_postgres_waits.py"

MUTANTS = (
    *EFFECTS,
    *GUARDED,
    *LOCKS,
    *OVERLAPS,
    *REQUESTS,
    Mutant(
        "only the insert of its key makes a named run",
        "stores/sql/base/enqueue.sql",
        """nextval('{schema}run_id'), {now}, :fingerprint)
      ON CONFLICT (kind, scope, key) DO NOTHING
""",
        """nextval('{schema}run_id'), {now}, :fingerprint)
      ON CONFLICT (kind, scope, key) DO UPDATE SET run_id = EXCLUDED.run_id
""",
        f"{_POSTGRES} -k known_key_makes_no_second_run",
        "postgresql",
    ),
    Mutant(
        "settle compares the token",
        "stores/sql/base/runs.sql",
        "     AND r.token = given.token\n",
        "",
        f"{_POSTGRES} -k wrong_in_one_part",
        "postgresql",
    ),
    Mutant(
        "settle compares the replica",
        "stores/sql/base/runs.sql",
        "     AND r.replica = given.replica\n",
        "",
        f"{_POSTGRES} -k another_replica_cannot_settle",
        "postgresql",
    ),
    Mutant(
        "settle skips locked rows",
        "stores/sql/base/runs.sql",
        "FOR NO KEY UPDATE OF r SKIP LOCKED\n), ended",
        "FOR NO KEY UPDATE OF r\n), ended",
        f"{_POSTGRES} {_WAITS} -k 'fence or skip or locked'",
        "postgresql",
    ),
    Mutant(
        "the fence locks the run's row",
        "stores/sql/base/runs.sql",
        "   AND state = 'running'\n   FOR NO KEY UPDATE\n",
        "   AND state = 'running'\n",
        f"{_POSTGRES} {_WAITS} -k fence",
        "postgresql",
    ),
    Mutant(
        "an effect is claimed under the run's lock",
        "stores/sql/base/ledger.sql",
        "     FOR NO KEY UPDATE\n)\nINSERT INTO {schema}ledger (kind, scope, key, state, token,",
        ")\nINSERT INTO {schema}ledger (kind, scope, key, state, token,",
        f"{_POSTGRES} {_WAITS} -k 'effect or claim'",
        "postgresql",
    ),
    Mutant(
        "a claim leaves alone what outlived a replica",
        "stores/sql/base/runs.sql",
        "             AND r.deaths = 0\n",
        "",
        f"{_POSTGRES} -k outlived",
        "postgresql",
    ),
    Mutant(
        "a claim starts behind its mark",
        "stores/sql/base/runs.sql",
        "             AND (r.due, r.id) > (probe.due, probe.id)\n",
        "",
        f"{_POSTGRES} -k 'mark or probe or behind'",
        "postgresql",
    ),
    Mutant(
        "a dead replica claims nothing",
        "stores/sql/base/runs.sql",
        "   AND EXISTS (SELECT 1 FROM {schema}replica WHERE id = :replica AND dead_at = 0)\n",
        "",
        f"{_POSTGRES} -k dead_replica",
        "postgresql",
    ),
    Mutant(
        "history is kept from the end",
        "stores/sql/base/runs.sql",
        "replica, started, {now}, {now} + CAST(:keep AS bigint), outcome",
        "replica, started, {now}, created + CAST(:keep AS bigint), outcome",
        f"{_POSTGRES} -k from_the_end",
        "postgresql",
    ),
    Mutant(
        "keys of live runs are not purged",
        "stores/sql/base/runs.sql",
        "     AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = old.id)\n     AND NOT EXISTS "
        "(SELECT 1 FROM {schema}history WHERE id = old.id AND keep_until >= {now})\n), told",
        "), told",
        f"{_POSTGRES} -k 'purge or retried or key'",
        "postgresql",
    ),
    Mutant(
        "a run that lives is not discarded",
        "stores/sql/base/runs.sql",
        "WHERE id = :id\n   AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = :id)",
        "WHERE id = :id",
        f"{_POSTGRES} -k discarded",
        "postgresql",
    ),
    Mutant(
        "a sweep finds every run of a replica that is not live",
        "stores/sql/base/replicas.sql",
        "AND NOT EXISTS (SELECT 1 FROM {schema}replica WHERE id = r.replica AND dead_at = 0)\n"
        " ORDER BY r.id",
        "AND EXISTS (SELECT 1 FROM {schema}replica WHERE id = r.replica AND dead_at = {now})\n"
        " ORDER BY r.id",
        f"{_POSTGRES} -k 'later_pass or earlier or lost'",
        "postgresql",
    ),
    Mutant(
        "only a lapsed replica is judged",
        "stores/sql/base/replicas.sql",
        "AND lease_until < {now}\n",
        "AND lease_until < {now} + 3600000000\n",
        f"{_POSTGRES} -k 'judge or lapsed or lease'",
        "postgresql",
    ),
    Mutant(
        "a tick compares the revision",
        "stores/sql/base/tick.sql",
        "     AND s.revision = given.revision\n",
        "",
        f"{_POSTGRES} -k tick",
        "postgresql",
    ),
    Mutant(
        "a tick skips a schedule that somebody holds",
        "stores/sql/base/tick.sql",
        "   ORDER BY s.name\n     FOR NO KEY UPDATE OF s SKIP LOCKED",
        "   ORDER BY s.name\n     FOR NO KEY UPDATE OF s NOWAIT",
        f"{_POSTGRES} {_WAITS} -k 'tick or pause'",
        "postgresql",
    ),
    Mutant(
        "a definition replaces only the revision that was read",
        "stores/sql/base/schedules.sql",
        "   WHERE s.revision = CAST(:revision AS bigint)\n     AND s.dynamic = 0\n",
        "   WHERE s.dynamic = 0\n",
        f"{_POSTGRES} -k 'define or definition'",
        "postgresql",
    ),
    Mutant(
        "an outcome is recorded under the claim's own token",
        "stores/sql/base/ledger.sql",
        "     AND token = CAST(:token AS bigint)\n  RETURNING key, run_id, state",
        "  RETURNING key, run_id, state",
        f"{_POSTGRES} -k 'record or reclaim'",
        "postgresql",
    ),
    Mutant(
        "a reclaim draws a fresh token",
        "stores/sql/base/ledger.sql",
        "   SET token = nextval('{schema}token'),\n       state = 'claimed',",
        "   SET state = 'claimed',",
        f"{_POSTGRES} -k reclaim",
        "postgresql",
    ),
    Mutant(
        "the deadline counts from before the request",
        "core/lease.py",
        "    return asked_at + lease - margin(lease)\n",
        "    return asked_at + lease + margin(lease)\n",
        "tests/runtime/test_lease.py tests/runtime/test_keeper.py",
    ),
    Mutant(
        "a renewal counts from before its own request",
        "runtime/keeper.py",
        "        membership.deadline = rules.deadline(asked_at=asked_at, lease=lease)\n",
        "        now = self._clock.now()\n"
        "        membership.deadline = rules.deadline(asked_at=now, lease=lease)\n",
        "tests/runtime/test_keeper.py",
    ),
    Mutant(
        "a reply after the deadline does not bring the lease back",
        "runtime/keeper.py",
        "        if why := self._over(membership, self._clock.now()):\n"
        "            await self._lose(membership, why)\n            return False\n"
        "        membership.deadline",
        "        membership.deadline",
        "tests/runtime/test_keeper.py",
    ),
    Mutant(
        "the membership is lost before anybody is told",
        "runtime/keeper.py",
        "        membership.lost = why\n        self._host.tell(self._lost, membership)\n",
        "        self._host.tell(self._lost, membership)\n",
        "tests/runtime/test_keeper.py",
    ),
    Mutant(
        "a judge has been sound for a whole lease",
        "core/lease.py",
        "    return now - max(looking_since, renewing_since) >= lease\n",
        "    return True\n",
        "tests/runtime/test_sweeper.py",
    ),
    Mutant(
        "a lost claim is looked for",
        "runtime/worker.py",
        "                self._reconcile_at = 0\n",
        "                pass\n",
        "tests/runtime/test_worker.py",
    ),
    Mutant(
        "orphans are looked for on a bounded period",
        "runtime/worker.py",
        "        if now >= self._reconcile_at:\n",
        "        if self._reconcile_at == 0:\n",
        "tests/runtime/test_worker.py",
    ),
    Mutant(
        "what is being settled is not found again",
        "runtime/worker.py",
        "            if run.id not in known and run.id not in self.executor.attempts:\n",
        "            if run.id not in self.executor.attempts:\n",
        "tests/runtime/test_worker.py",
    ),
    Mutant(
        "a full claim looks behind the watermark",
        "core/watermark.py",
        "        return now >= self.full_due_at\n",
        "        return False\n",
        "tests/runtime/test_watermark.py",
    ),
    Mutant(
        "the deadline is checked right before a handler starts",
        "runtime/executor.py",
        "            elif not attempt.membership.valid(self._clock.now()):\n",
        "            elif False:\n",
        "tests/runtime/test_executor.py",
    ),
    Mutant(
        "a lost lease settles nothing",
        "runtime/executor.py",
        "            return None if attempt.lost else self._failure(attempt, executable, lost)\n",
        "            return self._failure(attempt, executable, lost)\n",
        "tests/runtime/test_executor.py",
    ),
    Mutant(
        "what outlived a replica runs alone",
        "core/solitude.py",
        "        if self.running_until > now and held > 0:\n            return Next.NOTHING\n",
        "",
        "tests/runtime/test_worker.py tests/core",
    ),
    Mutant(
        "a settlement asks what became of what it could not move",
        "runtime/settler.py",
        "            if now.state is State.RUNNING and now.replica == claim.replica:\n"
        "                locked.add(claim)\n            else:\n                done.add(claim)\n",
        "            done.add(claim)\n",
        "tests/runtime/test_settler.py",
    ),
    Mutant(
        "an unknown run looks again for an outcome recorded just before",
        "runtime/settler.py",
        "                await self._look_again(claim, settlement)\n",
        "                pass\n",
        "tests/runtime/test_settler.py",
    ),
    Mutant(
        "a stopping worker takes over its last claim",
        "runtime/replica.py",
        "            await asyncio.wait([working], timeout=CLAIM_SECONDS)\n",
        "",
        "tests/sim/test_takeover.py",
    ),
    Mutant(
        "content is compared before anything else",
        "core/effect.py",
        "        return Mismatch()\n",
        "        pass\n",
        "tests/api/test_effect.py",
    ),
    Mutant(
        "a repeat ends when the provider forgets its keys",
        "core/effect.py",
        "        case IfUnknown.REPEAT if entry.age < policy.provider_keeps:\n",
        "        case IfUnknown.REPEAT if True:\n",
        "tests/api/test_effect.py",
    ),
    Mutant(
        "a fork waits until nobody is inside SQLite",
        "stores/forkgate.py",
        "        return not self._uses.keys() - {mine}\n",
        "        return True\n",
        "tests/stores/test_fork_sqlite.py",
    ),
    Mutant(
        "a claim outside runs is taken over only when it has lapsed",
        "stores/sql/base/claims.sql",
        " AND l.claim_until BETWEEN 1 AND {now})\n",
        ")\n",
        f"{_POSTGRES} -k 'lapsed_claim or one_of_many_wins'",
        "postgresql",
    ),
    Mutant(
        "whoever ends a claim outside runs shows its token",
        "stores/sql/base/claims.sql",
        "   AND token = CAST(:token AS bigint)\n",
        "",
        f"{_POSTGRES} -k 'overtaken'",
        "postgresql",
    ),
    Mutant(
        "a forked child ends no period of its parent's",
        "turn.py",
        "    if turn.held.is_inherited:\n",
        "    if False:\n",
        "tests/api/test_once_per.py -k forked",
    ),
    Mutant(
        "what onejob once runs ends with it",
        "cli/leash.py",
        "    if quarry is not None:\n        _end(quarry, grace)\n",
        "",
        "tests/cli/test_once_deaths.py -k 'death_takes and sqlite'",
    ),
)
