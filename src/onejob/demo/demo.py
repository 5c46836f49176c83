"""Play all acts, one after the other, each with its own provider, replicas and tables."""

from __future__ import annotations

import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from onejob.demo.acts import ACTS, direction
from onejob.demo.ending import ending_on_sigterm
from onejob.demo.patience import Stuck
from onejob.demo.place import Place
from onejob.demo.processes import Fleet, Replica
from onejob.demo.provider import Provider
from onejob.demo.result import Result, counted
from onejob.demo.stage import Stage
from onejob.demo.timeline import timeline
from onejob.errors import UsageError

#: With faults one replica is killed and one frozen: a third must be there to take over.
REPLICAS_WITH_FAULTS = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be played. ``url`` "" means SQLite files of the demo's own."""

    replicas: int = 3
    customers: int = 200
    seed: int = 0
    faults: bool = True
    url: str = ""
    acts: Sequence[str] = tuple(ACTS)

    def check(self) -> None:
        """Raise UsageError for what can't be played. Opens nothing."""
        if self.faults and self.replicas < REPLICAS_WITH_FAULTS:
            raise UsageError(
                f"--replicas {self.replicas} is too few: one is killed and one frozen, so a third "
                "must be left to take over. Give at least 3, or --no-faults."
            )
        if self.faults and not hasattr(signal, "SIGSTOP"):
            raise UsageError("this system cannot freeze a process (no SIGSTOP). Use --no-faults.")
        if self.url:
            Place.at(self.url, "checked")


#: Called when an act begins, with its name and its stage, so that progress can be shown.
Began = Callable[[str, Stage], None]
#: Called when an act is over.
Ended = Callable[[Result], None]


def play(plan: Plan, *, began: Began, ended: Ended) -> list[Result]:
    """Play every act of the plan. Nothing is left behind: no process, no table, no file."""
    plan.check()
    if plan.url:
        Place.at(plan.url, "checked").check()
    results = []
    with ending_on_sigterm(), tempfile.TemporaryDirectory(prefix="onejob-demo-") as directory:
        for act in plan.acts:
            result = _play(act, plan, Path(directory), began)
            results.append(result)
            ended(result)
    return results


def _play(act: str, plan: Plan, directory: Path, began: Began) -> Result:
    store = plan.url or f"sqlite:///{directory / act}.db"
    place = Place.at(store, f"demo_{secrets.token_hex(4)}")
    logs = directory / act
    logs.mkdir()
    trouble = ""
    start = time.monotonic()
    try:
        with Provider() as provider, Fleet(logs) as fleet:
            stage = Stage(
                act=act,
                size=1 if act == "naive-restart" else plan.replicas,
                customers=plan.customers,
                faults=plan.faults,
                # Its own for each act, so that an act can be played again without the others.
                random=Random(f"{plan.seed} {act}"),
                place=place,
                store=store,
                provider=provider,
                fleet=fleet,
            )
            began(act, stage)
            try:
                direction(act)(stage)
            except Stuck as error:
                trouble = _explained(error, fleet.replicas)
        # After the last process: nothing can be delivered any more.
        return _result(stage, start, time.monotonic(), trouble)
    finally:
        place.drop()


def _result(stage: Stage, began: float, ended: float, trouble: str) -> Result:
    replicas = stage.fleet.replicas
    emails, duplicates, missing = counted(stage.provider.delivered(), stage.customers)
    return Result(
        name=stage.act,
        replicas=stage.size,
        customers=stage.customers,
        emails=emails,
        asked=len(stage.provider.requests),
        duplicates=duplicates,
        missing=missing,
        kills=_marked(replicas, "kill"),
        pauses=_marked(replicas, "freeze"),
        seconds=ended - began,
        timeline=timeline(
            [(replica.name, replica.marks) for replica in replicas],
            stage.provider.requests,
            stage.holds,
            began=began,
            ended=ended,
        ),
        trouble=trouble,
    )


def _marked(replicas: Sequence[Replica], what: str) -> int:
    return sum(1 for replica in replicas for mark in replica.marks if mark.what == what)


def _explained(error: Stuck, replicas: Sequence[Replica]) -> str:
    """Add what the replicas themselves said last."""
    words = [f"{replica.name}: {said}" for replica in replicas if (said := replica.last_words())]
    return "; ".join([str(error), *words])
