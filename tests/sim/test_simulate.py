"""A store without one of its guards is found out, the failure is made small, and both are told."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from onejob.commands import ledger
from onejob.commands.command import Command
from onejob.prove import report
from onejob.prove.simulate import Report, main, simulate, smallest
from onejob.stores.memory import MemoryStore


class Forgetful(MemoryStore):
    """Forgets every key that it has seen before it makes a run."""

    def run(self, command: Command[Any], within: Any = None) -> Any:
        if command.name in ("run_enqueue", "run_enqueue_keyed"):
            for name in [name for name in self.tables.ledger if name[0] == "run"]:
                del self.tables.ledger[name]
        return super().run(command, within)


class Unfenced(MemoryStore):
    """Takes a write for whoever sends it, whether their claim holds or not."""

    def run(self, command: Command[Any], within: Any = None) -> Any:
        if command.name != "ledger_first_in_run":
            return super().run(command, within)
        given = command.parameters
        scope, key = str(given["scope"]), str(given["key"])
        return super().run(ledger.first(scope, key, owner="", keep=10**12))


@cache
def failing(make_store: type[MemoryStore]) -> Report:
    for seed in range(60):
        played = simulate(seed, make_store=make_store)
        if played.failures:
            return played
    pytest.fail("60 seeds found nothing")


@pytest.mark.parametrize(("store", "promise"), [(Forgetful, "P1"), (Unfenced, "P2")])
def test_a_store_without_a_guard_is_found_out(store: type[MemoryStore], promise: str) -> None:
    assert promise in {verdict.promise for verdict in failing(store).failures}


@cache
def small() -> Report:
    return smallest(failing(Unfenced), make_store=Unfenced)


def test_a_failure_is_shrunk_to_the_faults_that_it_needs() -> None:
    whole = failing(Unfenced)

    assert {v.promise for v in small().failures} & {v.promise for v in whole.failures}
    assert len(small().injected) <= 3 < len(whole.injected)


def test_the_command_prints_what_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--start", "3"]) == 0

    printed = capsys.readouterr().out
    assert "2 plays" in printed
    assert "run_claim" in printed
    assert "P7" in printed
    assert "proved" not in printed


def test_a_failure_names_its_seed_its_promise_and_its_faults() -> None:
    told = report.failure(small().seed, small().failures, small().injected)

    assert f"seed {small().seed}" in told
    assert "P2: violated at" in told
    assert len(told.splitlines()) <= 12
