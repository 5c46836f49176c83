"""Facts of all files, put together: a trigger with the function it runs, its guards, its launches.

1. Index functions, decorators and aspects that guard, by the last part of their names.
2. For each trigger collect guards: its own, those of the decorators on its function, those in the
   function's body, and those one call further.
3. Find the launches that start its process: by the names in the command, the image, the manifest.
4. Judge (``verdict.decide``), and look up the rule's advice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from onejob.scan import charts
from onejob.scan.facts import Fact, Function, Guard, Launch, Note, Setting, Smell, Trigger
from onejob.scan.finding import Finding, Related, Verdict
from onejob.scan.fleet import resolved
from onejob.scan.nearby import Launches
from onejob.scan.pooling import session_locks_behind_poolers
from onejob.scan.registry import rule_for
from onejob.scan.settings import adjusted
from onejob.scan.settled import settled
from onejob.scan.verdict import SURGE, decide, product
from onejob.scan.wrappers import unwrapped

_LOCKS = re.compile(
    r"(^|_)(distributed|single(ton)?|exclusive|mutex|unique|only_?one|run_?once|lock(ed)?|leader)(_|$)",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: A function name that many files define tells nothing; only one in the same file is meant then.
SAME_NAME_MAX = 4
TELLING_CHARACTERS = 7
#: What is believed of a guard one call further: locks of a process often guard something else.
_FAR = frozenset({Verdict.GUARDED, Verdict.WEAK_GUARD, Verdict.NO_OVERLAP})


def join(facts: Iterable[Fact], house_guards: tuple[str, ...] = ()) -> list[Finding]:
    """Return one finding for each trigger, launch and smell, in the order of the files."""
    facts = settled(list(facts))
    functions = _by_last_name(fact for fact in facts if isinstance(fact, Function))
    settings = tuple(fact for fact in facts if isinstance(fact, Setting))
    started = resolved((fact for fact in facts if isinstance(fact, Launch)), settings)
    launches = Launches(started)
    triggers = [fact for fact in facts if isinstance(fact, Trigger)]
    triggers = charts.filled([*triggers, *unwrapped(facts)], settings)
    findings = []
    for trigger in triggers:
        guards = tuple(_guards(trigger, functions, house_guards)) or tuple(
            _by_name(trigger, functions)
        )
        guards = adjusted(trigger, guards, settings)
        findings.append(_finding(trigger, guards, launches.of(trigger)))
    findings += [_launched(launch) for launch in started if launch.reported]
    smells = [fact for fact in facts if isinstance(fact, Smell)]
    findings += map(_smelt, (*smells, *session_locks_behind_poolers(facts)))
    return sorted(findings, key=lambda each: (each.path, each.line, each.rule, each.name))


def notes_of(facts: Iterable[Fact]) -> list[Note]:
    """Return what could not be judged."""
    return [fact for fact in facts if isinstance(fact, Note)]


def _by_last_name(functions: Iterable[Function]) -> dict[str, list[Function]]:
    index: dict[str, list[Function]] = defaultdict(list)
    for function in functions:
        index[_last(function.name)].append(function)
    return index


def _guards(
    trigger: Trigger, functions: dict[str, list[Function]], house_guards: tuple[str, ...]
) -> Iterator[Guard]:
    yield from trigger.guards
    for mark in trigger.marks:
        if _last(mark) in house_guards:
            yield Guard(f"@{mark}", Verdict.GUARDED, trigger.line, "is one of your guards")
        yield from _inside(mark, trigger.path, functions)
    if not trigger.target:
        return
    for function in _meant(trigger.target, trigger.path, functions):
        yield from _placed(function)
        for mark in function.marks:
            if _last(mark) in house_guards:
                yield Guard(
                    f"@{mark}",
                    Verdict.GUARDED,
                    function.line,
                    "is one of your guards",
                    function.path,
                )
            yield from _inside(mark, function.path, functions)
        for call in function.calls:
            if _last(call) in house_guards:
                yield Guard(
                    f"{call}()",
                    Verdict.GUARDED,
                    function.line,
                    "is one of your guards",
                    function.path,
                )
            for guard in _inside(call, function.path, functions):
                if guard.gives in _FAR:
                    yield guard


def _by_name(trigger: Trigger, functions: dict[str, list[Function]]) -> Iterator[Guard]:
    """A decorator of which nothing is known but that it sounds like a lock."""
    meant = _meant(trigger.target, trigger.path, functions) if trigger.target else []
    for mark in (*trigger.marks, *(mark for function in meant for mark in function.marks)):
        if _LOCKS.search(_CAMEL.sub("_", _last(mark))):
            why = "is a guard by its name; what it does was not found here"
            yield Guard(f"@{_last(mark)}", Verdict.WEAK_GUARD, trigger.line, why)


def _inside(name: str, path: str, functions: dict[str, list[Function]]) -> Iterator[Guard]:
    for function in _meant(name, path, functions):
        yield from _placed(function)


def _placed(function: Function) -> Iterator[Guard]:
    for guard in function.guards:
        yield guard if guard.path else replace(guard, path=function.path)


def _meant(name: str, path: str, functions: dict[str, list[Function]]) -> list[Function]:
    """Return the functions that a dotted name may mean: the same file first, then by its parts."""
    found = functions.get(_last(name), [])
    here = [function for function in found if function.path == path]
    if here:
        return here
    parts = _parts(name)
    if not _telling(parts[-1]):
        # `delete` and `run` are everywhere: what stands before the name must agree as well.
        found = [f for f in found if len(parts) > 1 and parts[-2] in _before(f)]
    best = max((_agreement(parts[:-1], function) for function in found), default=0)
    found = [function for function in found if _agreement(parts[:-1], function) == best]
    return found if len(found) < SAME_NAME_MAX else []


def _before(function: Function) -> list[str]:
    """Return what may stand before a function's name: its class, its module."""
    return [*_parts(function.name)[-3:-1], function.path.rpartition("/")[2].partition(".")[0]]


def _telling(name: str) -> bool:
    """Decide whether a function's name alone says which one is meant: it has several words."""
    words = "_" in name.strip("_") or not (name.islower() or name.isupper())
    return words and len(name) >= TELLING_CHARACTERS


def _agreement(parts: list[str], function: Function) -> int:
    known = set(_parts(function.name)) | set(function.path.rpartition(".")[0].split("/"))
    return len(known & set(parts))


def _parts(name: str) -> list[str]:
    return name.replace(":", ".").replace("/", ".").replace("::", ".").split(".")


def _last(name: str) -> str:
    return _parts(name)[-1]


def _finding(trigger: Trigger, guards: tuple[Guard, ...], launches: tuple[Launch, ...]) -> Finding:
    decision = decide(trigger, guards, launches)
    rule = rule_for(trigger.kind)
    related = list(trigger.related)
    if decision.guard is not None and (
        decision.guard.path not in ("", trigger.path) or decision.guard.line != trigger.line
    ):
        place = decision.guard.path or trigger.path
        related.append(Related(place, decision.guard.line, decision.guard.name))
    for each in launches:
        related += [Related(each.path, each.line, each.kind), *each.related]
    return Finding(
        path=trigger.path,
        line=trigger.line,
        role=trigger.role,
        kind=trigger.kind,
        language=trigger.language,
        name=trigger.name,
        schedule=trigger.schedule,
        guard=decision.guard.name if decision.guard is not None else None,
        verdict=decision.verdict,
        runs_per_tick=decision.runs_per_tick,
        rule=rule.code,
        reason=decision.reason,
        advice=rule.advise(decision.verdict, trigger.kind),
        confidence=trigger.confidence,
        related=tuple(dict.fromkeys(related)),
    )


def _launched(launch: Launch) -> Finding:
    rule = rule_for(launch.kind)
    return Finding(
        path=launch.path,
        line=launch.line,
        role="launch",
        kind=launch.kind,
        language=launch.language,
        name=launch.name,
        schedule="",
        guard=None,
        verdict=launch.verdict,
        runs_per_tick=SURGE
        if launch.verdict is Verdict.OVERLAP_ON_DEPLOY
        else "1"
        if launch.verdict is Verdict.GUARDED
        else product(launch, launch.fires),
        rule=rule.code,
        reason=launch.why or _LAUNCH_WHY.get(launch.verdict, "starts what fires"),
        advice=rule.advise(launch.verdict, launch.kind),
        related=launch.related,
    )


_LAUNCH_WHY = {
    Verdict.MULTIPLIER: "starts several processes, or may, and each of them fires",
    Verdict.SINGLE: "starts one process; nothing stops somebody from starting a second",
    Verdict.OVERLAP_ON_DEPLOY: "keeps one replica, and a rollout overlaps two",
    Verdict.HOST_ONLY: "is limited on this host only",
}


def _smelt(smell: Smell) -> Finding:
    rule = rule_for(smell.kind)
    return Finding(
        path=smell.path,
        line=smell.line,
        role="smell",
        kind=smell.kind,
        language=smell.language,
        name=smell.name,
        schedule="",
        guard=None,
        verdict=Verdict.SMELL,
        runs_per_tick="",
        rule=rule.code,
        reason=smell.why,
        advice=rule.advise(Verdict.SMELL, smell.kind),
        confidence=smell.confidence,
    )
