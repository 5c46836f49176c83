"""From facts to a verdict. Pure: what was joined goes in, a decision comes out."""

from __future__ import annotations

from dataclasses import dataclass

from onejob.scan.facts import Guard, Launch, Trigger
from onejob.scan.finding import Verdict

SURGE = "1, and 2 during a rollout = 1 replica + 1 surge"
TIMES = "\N{MULTIPLICATION SIGN}"

#: Which guard speaks, when there are several: what keeps a job off first, then the strongest.
STRONGEST = (
    Verdict.DISABLED,
    Verdict.NEVER,
    Verdict.DORMANT,
    Verdict.PER_PROCESS_SCHEDULE,
    Verdict.GUARDED,
    Verdict.WEAK_GUARD,
    Verdict.SINGLE,
    Verdict.NO_OVERLAP,
    Verdict.OVERLAP_ON_DEPLOY,
    Verdict.HOST_ONLY,
    Verdict.PER_PROCESS_OK,
    Verdict.INERT_GUARD,
)

#: What a guard says of a schedule that is no question of who runs it.
_OFF = frozenset(
    (
        Verdict.DISABLED,
        Verdict.NEVER,
        Verdict.DORMANT,
        Verdict.PER_PROCESS_SCHEDULE,
        Verdict.GUARDED,
    )
)

_ALONE = {
    "process": "every process that loads this fires it, and nothing shared decides which one may",
    "scheduler": "each scheduler process fires it, and nothing stops a second one",
    "host": "every host that has this fires it",
    "platform": "the platform may fire it more than once for one fire time",
}
_OTHERWISE = {
    Verdict.CI: "a build service runs it",
    Verdict.CONSUMER: "it takes work from a queue, which may hand the same work out again",
    Verdict.PER_PROCESS_OK: "each process is meant to do this for itself",
    Verdict.AT_LEAST_ONCE: _ALONE["platform"],
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What is said about one trigger."""

    verdict: Verdict
    reason: str
    runs_per_tick: str
    guard: Guard | None = None


def decide(trigger: Trigger, guards: tuple[Guard, ...], launches: tuple[Launch, ...]) -> Decision:
    """Judge a trigger by its guards, nearest first, and by the launches that start its process."""
    guard = strongest(guards)
    if guard is not None and trigger.alone is Verdict.GUARDED and guard.gives not in _OFF:
        guard = None  # the library's own key says more than a lock in the body
    launch = _worst(launches)
    verdict = guard.gives if guard is not None else trigger.alone
    limited = verdict is Verdict.UNGUARDED and trigger.fires in ("process", "scheduler")
    if limited and launch is not None and _one(launch):
        return _by_launch(trigger, launch)
    reason = _reason(trigger, guard, verdict)
    if verdict is Verdict.HOST_ONLY and launch is not None and (launch.replicas or 0) > 1:
        reason += f"; {launch.replicas} hosts still run it ({launch.path}:{launch.line})"
    return Decision(verdict, reason, _runs(trigger, verdict, launch), guard)


def strongest(guards: tuple[Guard, ...]) -> Guard | None:
    """Return the guard that decides; the first of equals."""
    ranked = [guard for guard in guards if guard.gives in STRONGEST]
    return min(ranked, key=lambda guard: STRONGEST.index(guard.gives), default=None)


def _worst(launches: tuple[Launch, ...]) -> Launch | None:
    def size(launch: Launch) -> float:
        many = float("inf")
        replicas = many if launch.replicas is None or launch.autoscaled else launch.replicas
        return replicas * (many if launch.workers is None else launch.workers)

    return max(launches, key=size, default=None)


def _one(launch: Launch) -> bool:
    one = launch.replicas == 1 and launch.workers == 1
    # What is embedded in a worker is started again by whoever scales the workers.
    return one and not launch.autoscaled and not launch.embeds


def _by_launch(trigger: Trigger, launch: Launch) -> Decision:
    place = f"{launch.path}:{launch.line}"
    if launch.rollout == "rolling":
        return Decision(
            Verdict.OVERLAP_ON_DEPLOY,
            f"{place} keeps one replica, and a rollout starts the new one before the old one ends",
            SURGE,
        )
    return Decision(
        Verdict.SINGLE,
        f"{place} starts one process, and the old one ends before the new one starts"
        if launch.rollout
        else f"{place} starts one process; nothing stops somebody from scaling it",
        f"1 = 1 replica {TIMES} 1",
    )


def _reason(trigger: Trigger, guard: Guard | None, verdict: Verdict) -> str:
    if guard is not None:
        place = f"{guard.path or trigger.path}:{guard.line}"
        return f"{guard.name} ({place}) {guard.why or _GUARD_WHY[guard.gives]}"
    return trigger.why or _OTHERWISE.get(verdict) or _ALONE[trigger.fires]


_GUARD_WHY = {
    Verdict.GUARDED: "lets a shared store decide who runs it",
    Verdict.WEAK_GUARD: "is shared, and has a hole",
    Verdict.INERT_GUARD: "has no effect here",
    Verdict.HOST_ONLY: "ends at this host",
    Verdict.NO_OVERLAP: "keeps two from running at once, not one fire time from running twice",
    Verdict.OVERLAP_ON_DEPLOY: "keeps one replica, and a rollout overlaps two",
    Verdict.SINGLE: "keeps one process",
    Verdict.DISABLED: "switches it off",
    Verdict.NEVER: "names no instant",
    Verdict.DORMANT: "shows that nothing starts it",
    Verdict.PER_PROCESS_SCHEDULE: "is drawn when the file is loaded, so that replicas differ",
    Verdict.PER_PROCESS_OK: "is this process's own",
}


def _runs(trigger: Trigger, verdict: Verdict, launch: Launch | None) -> str:
    match verdict:
        case Verdict.GUARDED | Verdict.SINGLE:
            return "1"
        case Verdict.NO_OVERLAP | Verdict.WEAK_GUARD:
            return "1, more when the guard fails"
        case Verdict.DISABLED | Verdict.NEVER | Verdict.DORMANT:
            return "0"
        case Verdict.AT_LEAST_ONCE:
            return "1 or more = at least once"
        case Verdict.HOST_ONLY if launch is not None and launch.replicas is not None:
            return f"{launch.replicas} = {launch.replicas} hosts {TIMES} 1"
        case Verdict.HOST_ONLY:
            return f"hosts = hosts {TIMES} 1"
        case Verdict.CI | Verdict.CONSUMER:
            return "1"
        case _ if trigger.fires == "platform":
            return "1 or more = at least once"
        case _ if trigger.fires == "host":
            return f"hosts = hosts {TIMES} 1"
        case _:
            return product(launch, trigger.fires)


def product(launch: Launch | None, fires: str) -> str:
    """Return the sum that a reader can check: ``12 = 3 replicas x 4 workers``."""
    if launch is None:
        unit = "schedulers" if fires == "scheduler" else "processes"
        return f"{unit} = {unit} {TIMES} 1"
    replicas, workers = launch.replicas, launch.workers
    left = "replicas" if replicas is None else f"{replicas} replica{'s' * (replicas != 1)}"
    if launch.autoscaled and replicas is not None:
        left = f"{replicas} or more replicas"
    right = "workers" if workers is None else "1" if workers == 1 else f"{workers} workers"
    if replicas is None or workers is None or launch.autoscaled:
        return f"n = {left} {TIMES} {right}"
    return f"{replicas * workers} = {left} {TIMES} {right}"
