"""The guards of effects by the batch, each with the edit that takes it away."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LEDGER = "stores/sql/base/ledger.sql"
_POSTGRES = "tests/stores/test_conformance_postgres.py"
_EACH = "tests/api/test_each.py"

EFFECTS = (
    Mutant(
        "many effects are claimed under the run's lock",
        _LEDGER,
        "     FOR NO KEY UPDATE\n)\nINSERT INTO {schema}ledger (kind, scope, key, state, token, "
        "owner, run_id, claimed, fingerprint)\nSELECT 'effect', :scope, given.key,",
        ")\nINSERT INTO {schema}ledger (kind, scope, key, state, token, "
        "owner, run_id, claimed, fingerprint)\nSELECT 'effect', :scope, given.key,",
        f"{_POSTGRES} -k claim_of_many_keeps",
        "postgresql",
    ),
    Mutant(
        "an item is claimed just before its call",
        "core/each.py",
        "return max(0, concurrency + min(concurrency, ended_meanwhile) - outstanding)",
        "return PAGE",
        f"{_EACH} -k 'just_before_its_call and sqlite'",
    ),
    Mutant(
        "a loop that has lost its lease calls nothing more",
        "looping.py",
        "if self.stop is None and (why := self.lost()):",
        "if False and (why := self.lost()):",
        f"{_EACH} -k 'gives_back_what_it_has_not_called and sqlite'",
    ),
    Mutant(
        "what was only claimed is given back",
        "looping.py",
        "                self._unsent[task.key] = task.token\n        if len(self._outstanding)",
        "                del self._outstanding[task.key]\n        if len(self._outstanding)",
        f"{_EACH} -k 'claimed_and_not_called and sqlite'",
    ),
    Mutant(
        "after a lost reply the entries themselves tell whose they are",
        "looping.py",
        "if entry and (entry.owner, entry.state) == (self.loop.owner, EntryState.CLAIMED):",
        "if False:",
        f"{_EACH} -k 'lost_reply and sqlite'",
    ),
    Mutant(
        "a refused connection proves nothing after a try that went out",
        "core/clients/urllib3.py",
        "    return history is None or not all(is_unconnected(one.error) for one in history)\n",
        "    return False\n",
        "tests/outcomes/test_own_retries.py -k urllib3_that_was_heard",
    ),
)
