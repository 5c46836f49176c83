"""The same plays on SQLite, where a command can also end between two of its statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onejob.commands import runs
from onejob.commands.command import Command
from onejob.commands.runs import NewRun
from onejob.core.run import Claim, End, Outcome, ReplicaId, RunId, Token
from onejob.core.time import DAY
from onejob.core.watermark import full_probes
from onejob.prove import report
from onejob.prove.simulate import simulate
from onejob.prove.statements import CutOff, StatementStore, sqlite_in
from onejob.testing.conformance.given import NOW, joined

BLOCK = 5
REPLICA = ReplicaId("replica-a")


@pytest.mark.parametrize("block", range(4))
def test_no_promise_breaks_on_sqlite_under_these_seeds(tmp_path: Path, block: int) -> None:
    make_store = sqlite_in(tmp_path)
    for seed in range(700 + block * BLOCK, 700 + (block + 1) * BLOCK):
        played = simulate(seed, make_store=make_store)

        assert played.failures == (), report.failure(seed, played.failures, played.injected)


def test_a_seed_is_the_same_history_on_sqlite_and_in_memory(tmp_path: Path) -> None:
    quiet = frozenset[Any]()

    on_sqlite = simulate(6, only=quiet, make_store=sqlite_in(tmp_path))

    assert ended(on_sqlite.history.facts) == ended(simulate(6, only=quiet).history.facts)


COMMANDS: dict[str, Callable[[], Command[Any]]] = {
    "enqueue": lambda: runs.enqueue([NewRun("mail", "k2", "{}", keyed=True)], now=NOW),
    "claim": lambda: runs.claim(
        full_probes(["default"]), jobs=["mail"], replica=REPLICA, limit=9, now=NOW + 2
    ),
    "settle": lambda: runs.settle(
        [(Claim(RunId(1), Token(1), REPLICA), End(Outcome.SUCCEEDED))], keep=DAY, now=NOW + 3
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_cut_off_at_any_statement_leaves_nothing(tmp_path: Path, name: str) -> None:
    store = sqlite_in(tmp_path)(lambda: NOW)
    given(store, claimed=name == "settle")
    before = dump(store)

    for place in range(8):
        with pytest.raises(CutOff):
            store.cut(COMMANDS[name](), place)

    assert dump(store) == before
    assert store.run(COMMANDS[name]()), "uncut, the same command is carried out"


def given(store: StatementStore, *, claimed: bool) -> None:
    joined(store.run, REPLICA)
    store.run(runs.enqueue([NewRun("mail", "k1", "{}", keyed=True)], now=NOW))
    if claimed:
        [run] = store.run(COMMANDS["claim"]())
        assert (run.id, run.token) == (1, 1)


def dump(store: StatementStore) -> list[str]:
    with sqlite3.connect(store.path) as connection:
        lines = list(connection.iterdump())
    connection.close()
    return lines


def ended(facts: list[Any]) -> dict[str, int]:
    """How many runs of each job ended how."""
    counts: dict[str, int] = {}
    for fact in facts:
        if type(fact).__name__ == "Stood" and fact.job in ("work", "pay", "fenced"):
            name = f"{fact.job} {fact.state} {fact.outcome}"
            counts[name] = counts.get(name, 0) + 1
    return counts
