"""What sources say about a file: facts, without judgement. Joining and verdicts come later.

Every fact has the ``path`` of its file as the scan shows it, and the ``line`` where a reader should
look. Texts that a fact carries are names and schedules; never a command line, a value or a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from onejob.scan.finding import Confidence, Related, Role, Verdict


@dataclass(frozen=True, slots=True)
class Guard:
    """Something that was written to keep a job from running more often than once.

    ``gives`` is the verdict that the guard, alone, earns: GUARDED, WEAK_GUARD, NO_OVERLAP,
    HOST_ONLY, INERT_GUARD; DISABLED, NEVER and DORMANT for what keeps it from running at all;
    SINGLE and OVERLAP_ON_DEPLOY for what limits the processes. ``why`` is a clause that follows
    "name (file:line)": "keeps a row lock until its transaction ends".
    """

    name: str
    gives: Verdict
    line: int
    why: str = ""
    path: str = ""
    """Where it stands; empty for the file of the fact that has it."""
    needs: str = ""
    """The dotted name that must be an App of onejob in this tree, or it is no guard at all."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A place that starts background work by time, or that takes it from a queue."""

    kind: str
    """The mechanism, such as ``apscheduler``. The rule that lists it decides the code."""
    path: str
    line: int
    language: str
    name: str = ""
    """What a reader calls the job: its id, or the function's name."""
    schedule: str = ""
    """A cron expression, ``every 5m``, or words; empty where the code computes it."""
    target: str = ""
    """The dotted name of the function that does the work, as far as it could be resolved."""
    marks: tuple[str, ...] = ()
    """The decorators or annotations on the function, without arguments: they may be guards."""
    guards: tuple[Guard, ...] = ()
    alone: Verdict = Verdict.UNGUARDED
    """The verdict when no guard is found: AT_LEAST_ONCE, CI, CONSUMER, PER_PROCESS_OK, ..."""
    role: Role = "trigger"
    fires: str = "process"
    """Who fires it: ``process`` (every process that loads the file), ``scheduler`` (a scheduler
    process of the library, such as beat), ``host`` (every host with the file), ``platform``."""
    why: str = ""
    """A clause that says why ``alone`` is what it is, where the kind doesn't say it."""
    words: tuple[str, ...] = ()
    """More names by which a launch may mean this file: module, console script, image."""
    confidence: Confidence = "high"
    related: tuple[Related, ...] = ()
    scheduler: str = ""
    """The dotted name of the object that fires it, where the code has one."""
    needs: str = ""
    """As a guard's: without that App this is no trigger."""
    values: tuple[tuple[str, str], ...] = ()
    """What a template leaves to its chart: ("schedule", "cleanup.schedule")."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A place that says how a process is started, and how often."""

    kind: str
    path: str
    line: int
    language: str
    name: str = ""
    words: tuple[str, ...] = ()
    """Names in the command, the image and the manifest: joined with the paths of triggers."""
    fires: str = "process"
    """What it starts: ``process``, ``web``, ``scheduler`` (a beat of its own), or ``worker``."""
    replicas: int | None = None
    """None where nobody says: then it counts as many."""
    workers: int | None = None
    """Processes in each replica; None where the command takes them from the environment."""
    embeds: bool = False
    """The process brings its own scheduler: a worker with beat, a web app that starts one."""
    rollout: str = ""
    """``recreate`` (the old one ends first), ``rolling``, or empty where there is no rollout."""
    autoscaled: bool = False
    verdict: Verdict = Verdict.SINGLE
    guards: tuple[Guard, ...] = ()
    why: str = ""
    reported: bool = True
    """False for one that only explains triggers, such as any Deployment without a scheduler."""
    related: tuple[Related, ...] = ()
    workers_from: str = ""
    """The environment variable that says how many workers, such as WEB_CONCURRENCY."""
    replicas_from: str = ""
    """The chart's value that says how many replicas, such as ``replicaCount``."""
    commanded: bool = True
    """False where the image's own command is what runs."""
    scheduler: str = ""
    """The dotted name of the scheduler object that it starts."""

    @property
    def web(self) -> bool:
        """Tell a web server's processes from others."""
        return self.fires == "web"


@dataclass(frozen=True, slots=True)
class Function:
    """A function, decorator or aspect whose body guards. A trigger finds it by name.

    ``name`` is dotted as far as known: ``shop.tasks.digest``, ``TaskLock``. ``calls`` are the
    names it calls itself, for one step more.
    """

    name: str
    path: str
    line: int
    guards: tuple[Guard, ...] = ()
    calls: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scheduler:
    """An object that fires jobs, under the dotted name by which the tree knows it."""

    name: str
    library: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Guarding:
    """A place that hands a scheduler to onejob: ``app.guard(scheduler)``."""

    scheduler: str
    """The scheduler's dotted name, or its module's."""
    library: str
    """Empty where another file made it."""
    path: str
    line: int
    guard: Guard


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that changes what a library's guard is worth, such as a clustered job store."""

    name: str
    value: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Smell:
    """A place whose shape breaks a promise of "once", whatever triggers it."""

    kind: str
    path: str
    line: int
    language: str
    name: str
    why: str
    confidence: Confidence = "high"


@dataclass(frozen=True, slots=True)
class Note:
    """A file, or a part of one, that could not be judged, and why."""

    path: str
    text: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A function that hands its caller's function to a scheduler or a loop: ``trigger``."""

    name: str
    path: str
    line: int
    trigger: Trigger


@dataclass(frozen=True, slots=True)
class Use:
    """A call that may be of a wrapper; a trigger when there is a wrapper of that name."""

    name: str
    path: str
    line: int
    label: str
    """What the reader calls the job."""
    schedule: str
    target: str


Fact: TypeAlias = (
    Trigger | Launch | Function | Scheduler | Guarding | Setting | Smell | Note | Wrapper | Use
)
