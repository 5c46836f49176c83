"""From command lines in manifests to facts about launches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onejob.scan.command import Started, started
from onejob.scan.facts import Fact, Launch, Setting
from onejob.scan.finding import Verdict

_NAMED = re.compile(
    r"(?:^|[^a-z])(?:scheduler|schedule|cron|crond|beat|celerybeat|clock|clockwork|ticker|periodic"
    r"|jobs|runner|daemon)(?:$|[^a-z])"
)
_NOT_NAMED = re.compile(
    r"(?:ci|gitlab|github|test|actions|e2e|kube)[-_]?(?:runner|scheduler)|cronjob"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command stands, and what its manifest says about the process."""

    path: str
    line: int
    language: str
    name: str = ""
    """The service's, process's or container's name."""
    words: tuple[str, ...] = ()
    replicas: int | None = None
    rollout: str = ""
    autoscaled: bool = False
    replicas_from: str = ""


def named_for_it(name: str) -> bool:
    """Decide whether a service is called what a process that fires jobs is called."""
    low = name.lower()
    return _NAMED.search(low) is not None and _NOT_NAMED.search(low) is None


def launches(
    command: str | Sequence[str], place: Place, *, all_of_them: bool = False
) -> Iterator[Fact]:
    """Return what a container's or a process's command launches.

    The command that matters is the first that starts something of interest; the others only add
    their words. A script may start several things: ``all_of_them`` reports each.
    """
    found = started(command)
    known = [each for each in found if each.kind or each.fires in ("web", "worker")]
    words = tuple(dict.fromkeys(word for each in found for word in each.words))
    if any(each.redbeat for each in found):
        yield Setting("celery.redbeat", "RedBeatScheduler", place.path, place.line)
    if all_of_them:
        for each in known:
            if each.kind:
                yield launch(each, place, each.words)
        return
    if known:
        best = next((each for each in known if each.kind), known[0])
        yield launch(best, place, words)
    elif found or place.words:
        yield launch(Started("", ""), place, words)


def launch(started: Started, place: Place, words: tuple[str, ...] = ()) -> Launch:
    """Return the launch that a command and its manifest are together."""
    named = not started.kind and started.fires == "process" and named_for_it(place.name)
    kind = started.kind or ("scheduler-command" if named else "process")
    verdict, why = started.verdict, started.why
    if place.replicas == 0:
        verdict, why = Verdict.DISABLED, "is scaled to nothing"
    elif verdict is Verdict.SINGLE and (place.autoscaled or (place.replicas or 1) > 1):
        verdict = Verdict.MULTIPLIER
        many = (
            "an autoscaler decides how many" if place.autoscaled else f"{place.replicas} replicas"
        )
        why = f"keeps several of this process ({many}), and each fires"
    elif verdict is Verdict.SINGLE and place.replicas == 1 and place.rollout == "rolling":
        verdict = Verdict.OVERLAP_ON_DEPLOY
        why = "keeps one replica, and a rollout starts the new one before the old one ends"
    return Launch(
        kind=kind,
        path=place.path,
        line=place.line + started.offset,
        language=place.language,
        name=place.name or started.program,
        words=(*place.words, *words),
        fires=started.fires,
        replicas=place.replicas,
        workers=started.workers,
        embeds=started.embeds,
        rollout=place.rollout,
        autoscaled=place.autoscaled,
        verdict=verdict,
        why=why,
        reported=bool(started.kind) or named,
        workers_from=started.workers_from,
        replicas_from=place.replicas_from,
        commanded=started.program != "",
    )
