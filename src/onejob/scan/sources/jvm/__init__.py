"""Java and Kotlin: Spring, Micronaut, Quarkus, EJB timers, Quartz, executors and loops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact, Setting
from onejob.scan.reading import SourceFile
from onejob.scan.sources.jvm import guards, triggers
from onejob.scan.sources.jvm.methods import Unit
from onejob.scan.syntax import limited

PATTERNS = ("*.java", "*.kt", "*.kts", "application*.yml", "application*.yaml", "*.properties")

_TRIGGERS = re.compile(
    r"@(?:\w+\.)*Schedule[ds]?\b|@Recurring\b|[sS]cheduleAtFixedRate|[sS]cheduleWithFixedDelay"
    r"|newTrigger|TriggerFactoryBean|\bTimer\b|fixedRateTimer|\bCronTrigger\b|PeriodicTrigger"
    r"|Thread\.sleep|\.sleep\(|\bdelay\(|setPeriodic|\.interval\(|scheduleRecurrently"
    r"|add(?:Cron|FixedRate|FixedDelay|Trigger)Task|Tasks\.recurring|\.recurring\(|@(?:Kafka|Rabbit|Jms|Sqs|Stream|Pulsar)\w*Listener"
)
_GUARDS = re.compile(
    r"@Aspect\b|shedlock|SchedulerLock|skip\s+locked|advisory_|setIfAbsent|executeWithLock"
    r"|[lL]ockRegistry|Redisson|isLeader|GET_LOCK|executeUpdate",
    re.IGNORECASE,
)
_CLUSTERED = re.compile(r"\bisClustered\s*[=:]\s*[\"']?(\w+)")
_FOR_PEOPLE = re.compile(r"(?m)^\s*import\s+(?:android|androidx|javafx|java\.awt|javax\.swing)\b")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return what a file of Java or Kotlin, or its properties, says."""
    if not file.path.lower().endswith((".java", ".kt", ".kts")):
        yield from _clustered(file)
        return
    text = file.text
    triggering, guarding = _TRIGGERS.search(text), _GUARDS.search(text)
    if not (triggering or guarding) or _FOR_PEOPLE.search(text):
        return
    unit = Unit(file)
    if triggering:
        yield from limited(triggers.triggers(unit), file.path)
    if guarding:
        yield from guards.settings(unit)
        yield from guards.functions(unit)
        if "@Aspect" in text:
            yield from guards.aspects(unit)
    yield from _clustered(file)


def _clustered(file: SourceFile) -> Iterator[Setting]:
    if "Clustered" not in file.text:
        return
    for number, text in enumerate(file.lines, start=1):
        if text.lstrip().startswith(("#", "!", "//", "*")):
            continue
        match = _CLUSTERED.search(text) or re.search(
            r"isClustered[\"']\s*,\s*[\"']?(true|false)", text
        )
        if match:
            yield Setting("quartz.clustered", match[1], file.path, number)
