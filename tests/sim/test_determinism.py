"""One seed is one history: in this process, in the next one, and with fewer faults as well."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onejob.prove.simulate import simulate

SEEDS = (3, 6, 14)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_played_again_gives_the_same_history(seed: int) -> None:
    once, again = simulate(seed), simulate(seed)

    assert once.history.digest() == again.history.digest()
    assert once.injected == again.injected


def test_another_process_with_another_hash_seed_plays_the_same() -> None:
    text = "from onejob.prove.simulate import simulate; print(simulate(3).history.digest())"
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}

    told = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=True
    )

    assert told.stdout.strip() == simulate(3).history.digest()


def test_a_play_with_all_its_faults_by_name_is_the_play_itself() -> None:
    whole = simulate(6)

    again = simulate(6, only=frozenset(whole.injected))

    assert again.history.digest() == whole.history.digest()


def test_a_play_without_faults_has_none() -> None:
    quiet = simulate(6, only=frozenset())

    assert quiet.injected == ()
    assert quiet.failures == ()
