"""What a chart's values say about its templates: ``schedule: {{ .Values.cleanup.schedule }}``.

A template is read as text; the value stands in the chart's ``values.yaml``. Put together here, so
that a CronJob has its expression and its policy, and the line that says so is cited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from onejob.scan.facts import Guard, Setting, Trigger
from onejob.scan.schedules import cron
from onejob.scan.sources.kubernetes import chosen


def filled(triggers: Iterable[Trigger], settings: Iterable[Setting]) -> list[Trigger]:
    """Return the triggers with the values that their templates name."""
    known: dict[str, list[Setting]] = {}
    for each in settings:
        if each.name.startswith("values."):
            known.setdefault(each.name.removeprefix("values."), []).append(each)
    return [_filled(each, known) if each.values else each for each in triggers]


def _filled(trigger: Trigger, known: dict[str, list[Setting]]) -> Trigger:
    guards: list[Guard] = []
    for key, name in trigger.values:
        setting = max(known.get(name, ()), key=partial(_shared, trigger.path), default=None)
        if setting is None:
            continue
        if key == "schedule":
            trigger = replace(trigger, schedule=cron(setting.value) or trigger.schedule)
        guards += (
            replace(guard, path=setting.path) for guard in chosen(key, setting.value, setting.line)
        )
    return replace(trigger, guards=(*trigger.guards, *guards))


def _shared(path: str, setting: Setting) -> int:
    """Count the directories that a template and a file of values have in common."""
    pairs = zip(path.split("/"), setting.path.split("/"), strict=False)
    return next((n for n, (one, other) in enumerate(pairs) if one != other), 0)
