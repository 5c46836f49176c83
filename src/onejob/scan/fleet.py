"""What other files add to a launch: counts from the environment, from a chart's values, from an
autoscaler; the script that a container starts; the command that its image brings.

``replicas: 3`` stands in one file and ``--workers 4`` in another. Put together here, so that the
product has both, and both lines are cited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from onejob.scan.facts import Launch, Setting
from onejob.scan.finding import Related, Verdict

#: An image that this many of the tree's own could be is none of them.
IMAGES_MAX = 3
_PLAIN = frozenset(("app", "web", "api", "server", "backend", "src", "docker", "", ".", "python"))


def resolved(launches: Iterable[Launch], settings: Iterable[Setting]) -> list[Launch]:
    """Return the launches with what the rest of the tree says about them."""
    known: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        known[setting.name].append(setting)
    counted = [_autoscaled(_counted(each, known), known) for each in launches]
    scripts = {each.path.rpartition("/")[2]: each for each in counted if each.language == "shell"}
    started = [_through_script(each, scripts) for each in counted]
    images = [each for each in started if each.language == "docker"]
    return [_through_image(each, images) for each in started]


def _counted(launch: Launch, known: dict[str, list[Setting]]) -> Launch:
    """Take the number of workers and of replicas from where it is set."""
    if launch.workers_from:
        setting = _nearest(launch, known.get(f"env.{launch.workers_from}", ()))
        if setting is not None:
            count = int(setting.value)
            launch = _many(replace(launch, workers=count), count, setting)
    if launch.replicas_from and launch.replicas is None:
        setting = _nearest(launch, known.get(f"values.{launch.replicas_from}", ()))
        if setting is not None:
            count = int(setting.value)
            launch = replace(launch, replicas=count, related=(*launch.related, _place(setting)))
            launch = _judged(launch)
    return launch


def _judged(launch: Launch) -> Launch:
    """Say what a number of replicas means that only another file has told."""
    if launch.verdict is not Verdict.SINGLE:
        return launch
    if launch.replicas == 0:
        return replace(launch, verdict=Verdict.DISABLED, why="is scaled to nothing")
    if launch.replicas != 1:
        why = f"keeps {launch.replicas} replicas of this process, and each fires"
        return replace(launch, verdict=Verdict.MULTIPLIER, why=why)
    if launch.rollout == "rolling":
        why = "keeps one replica, and a rollout starts the new one before the old one ends"
        return replace(launch, verdict=Verdict.OVERLAP_ON_DEPLOY, why=why)
    return launch


def _many(launch: Launch, count: int, setting: Setting) -> Launch:
    launch = replace(launch, related=(*launch.related, _place(setting)))
    if count > 1:
        why = f"starts {count} processes ({setting.path}:{setting.line}), and each loads everything"
        kind = launch.kind if launch.kind != "process" or not launch.web else "web-workers"
        return replace(launch, kind=kind, verdict=Verdict.MULTIPLIER, why=why, reported=True)
    if launch.kind == "web-workers":
        return replace(launch, verdict=Verdict.SINGLE, why="starts one process")
    return launch


def _autoscaled(launch: Launch, known: dict[str, list[Setting]]) -> Launch:
    found = known.get(f"k8s.autoscaled.{launch.name}", ()) if launch.name else ()
    setting = _nearest(launch, found)
    if setting is None or launch.autoscaled:
        return launch
    most = int(setting.value) if setting.value.isdigit() else None
    return replace(
        launch,
        autoscaled=True,
        replicas=most or launch.replicas,
        verdict=Verdict.MULTIPLIER,
        why="an autoscaler decides how many of it there are",
        related=(*launch.related, _place(setting)),
    )


def _through_script(launch: Launch, scripts: dict[str, Launch]) -> Launch:
    """A container that starts a script of the tree starts what the script starts."""
    if launch.language == "shell" or launch.kind != "process":
        return launch
    for word in launch.words:
        script = scripts.get(word.rpartition("/")[2])
        if script is not None:
            return _as(launch, script)
    return launch


def _through_image(launch: Launch, images: list[Launch]) -> Launch:
    """A container without a command of its own runs its image's."""
    if launch.language not in ("kubernetes", "compose") or launch.commanded:
        return launch
    mine = _words(launch)
    named = [each for each in images if mine & _words(each)]
    found = named if 0 < len(named) < IMAGES_MAX else images if len(images) == 1 else []
    return _as(launch, found[0]) if found else launch


def _as(launch: Launch, other: Launch) -> Launch:
    return replace(
        launch,
        fires=other.fires if other.fires != "process" else launch.fires,
        workers=other.workers,
        embeds=launch.embeds or other.embeds,
        words=(*launch.words, *other.words),
        related=(*launch.related, Related(other.path, other.line, other.kind), *other.related),
    )


def _words(launch: Launch) -> frozenset[str]:
    parts = (part for word in launch.words for part in word.lower().replace("_", "-").split("/"))
    return frozenset(part.partition(":")[0] for part in parts) - _PLAIN


def _nearest(launch: Launch, found: Iterable[Setting]) -> Setting | None:
    """Return the setting whose file shares the most directories with the launch's."""

    def shared(setting: Setting) -> tuple[int, int]:
        mine, theirs = launch.path.split("/")[:-1], setting.path.split("/")[:-1]
        common = 0
        for one, other in zip(mine, theirs, strict=False):
            if one != other:
                break
            common += 1
        return common, int(setting.value) if setting.value.isdigit() else 0

    return max((each for each in found), key=shared, default=None)


def _place(setting: Setting) -> Related:
    return Related(setting.path, setting.line, setting.name)
