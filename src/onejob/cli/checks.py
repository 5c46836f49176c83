"""What ``onejob doctor`` finds, decided from what was read. No I/O here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onejob.cli.text import clean, counted, span, when
from onejob.commands.claims import ClaimView
from onejob.commands.health import OpenTransaction
from onejob.commands.overlap import Late
from onejob.commands.views import JobView, ReplicaView, ScheduleView
from onejob.core.time import SECOND, Span, duration

if TYPE_CHECKING:
    from onejob.effects import EffectInfo

#: Clocks further apart than this deserve a look: log lines and fire times no longer fit together.
OFFSET_MAX = Span(2 * SECOND)

#: A schedule whose fire time passed longer ago than this has nobody who ticks it.
LATE = Span(30 * SECOND)

#: A transaction that is open for longer holds cleaning up.
TRANSACTION_MAX = Span(300 * SECOND)

#: How many names a sentence lists.
NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. ``detail`` says what was found and, where it is bad, what to do.

    ``look``: nothing to be repaired, but somebody should know of it.
    """

    name: str
    ok: bool
    detail: str
    look: bool = False


def keys(
    found: frozenset[tuple[str, tuple[str, ...]]], wanted: Mapping[str, tuple[str, ...]]
) -> Check:
    """Judge whether each unique key that a promise rests on is there and valid."""
    # The order of the columns is the index's own; which they are is what keeps a second one out.
    there = {(table, frozenset(columns)) for table, columns in found}
    missing = [
        f"{table} ({', '.join(columns)})"
        for table, columns in wanted.items()
        if (table, frozenset(columns)) not in there
    ]
    if not missing:
        return Check("unique keys", True, f"{len(wanted)} there and valid")
    return Check(
        "unique keys",
        False,
        f"missing, or invalid: {_named(missing)}. Until it is back two may win where one should. "
        "Stop the fleet, settle what stands twice (onejob check-unique TABLE --by COLUMNS), and "
        "make the key again as onejob init --sql has it.",
    )


def clock(offset: Span, uncertainty: Span) -> Check:
    """Judge how far the store's clock is from this machine's, give or take ``uncertainty``."""
    apart = f"the store's clock is {span(abs(offset))} {'ahead' if offset > 0 else 'behind'}"
    detail = f"{apart} (± {span(uncertainty)})" if abs(offset) > uncertainty else "in step"
    if abs(offset) - uncertainty <= OFFSET_MAX:
        return Check("clock", True, detail)
    return Check("clock", False, f"{detail}. Synchronise this machine or the store's (NTP).")


def replicas(found: tuple[ReplicaView, ...], jobs: tuple[JobView, ...]) -> Check:
    """Judge whether somebody is there, and whether everybody there is well."""
    live = [replica for replica in found if not replica.dead_at]
    late = [replica for replica in live if replica.lease_until <= replica.now]
    waiting = sum(job.scheduled for job in jobs)
    if not live:
        detail = "none is live"
        if waiting:
            detail += f", and {counted(waiting, 'run')} {'waits' if waiting == 1 else 'wait'}. "
            detail += "Start one: onejob worker MODULE:APP"
        return Check("replicas", not waiting, detail)
    versions = Counter(replica.version or "no version" for replica in live)
    told = ", ".join(
        f"{count} with {clean(version)}" for version, count in sorted(versions.items())
    )
    if late:
        names = _named([replica.id for replica in late])
        return Check(
            "replicas",
            False,
            f"{len(late)} of {len(live)} let their lease lapse ({names}): "
            "dead, frozen or cut off. A live one gives back what they held.",
        )
    return Check("replicas", True, f"{len(live)} live: {told}")


def parked(jobs: tuple[JobView, ...]) -> Check:
    """Judge whether runs wait for code that no live replica has."""
    found = [job for job in jobs if job.parked]
    if not found:
        return Check("parked runs", True, "none")
    names = _named([f"{job.job} ({job.parked})" for job in found])
    return Check("parked runs", False, f"no live replica knows {names}. Start a worker that does.")


def unknown(jobs: tuple[JobView, ...]) -> Check:
    """Judge whether runs wait for a word on what nobody knows."""
    found = [job for job in jobs if job.unknown]
    if not found:
        return Check("unknown runs", True, "none")
    names = _named([f"{job.job} ({job.unknown})" for job in found])
    return Check(
        "unknown runs",
        False,
        f"until their effects are settled, these wait: {names}. "
        "See: onejob effects, onejob runs --state unknown",
    )


def late(found: tuple[Late, ...]) -> Check:
    """Judge whether runs have not ended within what their job expects (``expect_within``)."""
    if not found:
        return Check("late runs", True, "none")
    names = _named([f"run {late.id} of {late.schedule or late.job}" for late in found])
    first = found[0]
    return Check(
        "late runs",
        False,
        f"{len(found)} should have ended by now: {names}. "
        f"See: onejob why {clean(first.job)} {first.id}",
    )


def schedules(found: Sequence[ScheduleView]) -> Check:
    """Judge whether every schedule fires, and in time."""
    active = [schedule for schedule in found if not schedule.paused]
    broken = [s for s in active if s.broken]
    late = [s for s in active if not s.broken and s.next_fire and s.now - s.next_fire > LATE]
    orphaned = [s for s in active if not (s.broken or s.declared) and s not in late]
    troubles = [f"{clean(s.name)} is broken ({clean(s.broken)})" for s in broken[:NAMED_MAX]]
    troubles += [
        f"{clean(s.name)} should have fired {when(s.next_fire)}, {span(s.now - s.next_fire)} ago"
        for s in late[:NAMED_MAX]
    ]
    if orphaned:
        lacks = "has the job of" if orphaned[0].dynamic else "declares"
        troubles.append(f"no live replica {lacks} {_named([s.name for s in orphaned])}")
    if troubles:
        advice = "Start a replica: onejob worker MODULE:APP"
        if orphaned:
            whose = orphaned[0]
            has = f"that has its job, {clean(whose.job)}" if whose.dynamic else "that declares it"
            gone = "is wanted no more" if whose.dynamic else "has gone from your code"
            advice = (
                f"Start a replica {has}, or, if it {gone}: "
                f"onejob schedules delete {clean(whose.name)}"
            )
        return Check("schedules", False, f"{'; '.join(troubles)}. {advice}")
    paused = len(found) - len(active)
    return Check(
        "schedules", True, f"{len(active)} in time" + (f", {paused} paused" if paused else "")
    )


def effects(found: Sequence[EffectInfo], *, most: int) -> Check:
    """Judge whether the outcome of an effect must be settled by a person.

    ``found`` are those whose outcome nobody knows, and that nobody is working on: the oldest first,
    and no more than ``most``. Said with an age, for what nobody settles becomes no clearer.
    """
    if not found:
        return Check("effects", True, "none unknown")
    names = _named([f"{effect.key} in {effect.scope}" for effect in found])
    many = f"{len(found):,} or more" if len(found) >= most else f"{len(found):,}"
    oldest = duration(found[0].age, what="age")
    return Check(
        "effects",
        False,
        f"{many} unknown, the oldest for {span(oldest)}: {names}. Look each up at its provider, "
        "then: onejob effects resolve SCOPE KEY done|redo|failed",
    )


def ticks(lapsed: tuple[ClaimView, ...], *, schedules: int = 0) -> Check:
    """Name the ticks of guarded schedulers whose process was not heard of again.

    ``schedules`` is how many are known, by their ticks.

    No failure: nobody can settle them any more, and they are forgotten in time.
    """
    unknown = [row.key for row in lapsed if row.state == "firing"]
    missed = [row.key for row in lapsed if row.state == "claimed"]
    told = [f"{len(unknown)} unknown, not fired again: {_named(unknown)}"] if unknown else []
    told += [f"{len(missed)} missed: {_named(missed)}"] if missed else []
    detail = f"{'; '.join(told)}. See: onejob why SCHEDULE" if told else "none unknown or missed"
    if schedules:
        detail = f"of {counted(schedules, 'schedule')}: {detail}"
    return Check("guarded ticks", True, detail, look=bool(told))


def periods(found: tuple[ClaimView, ...]) -> Check:
    """Judge whether the work of a period was begun and left: it waits for the next who asks."""
    if not found:
        return Check("periods", True, "none abandoned")
    names = _named([f"{claim.scope} {claim.key}" for claim in found])
    return Check(
        "periods",
        False,
        f"{len(found)} abandoned by whoever had begun: {names}. The next call, or the next "
        "onejob once, takes it over.",
    )


def transactions(oldest: OpenTransaction | None) -> Check:
    """Judge whether somebody's open transaction keeps the server from cleaning up."""
    if oldest is None or oldest.age <= TRANSACTION_MAX:
        return Check("transactions", True, "none open for long")
    who = f"{clean(oldest.application) or 'a session'} (pid {oldest.pid}, {oldest.state})"
    return Check(
        "transactions",
        False,
        f"{who} has had one open for {span(Span(oldest.age))}: dead rows behind it cannot be "
        f"cleaned up, and queries slow down. End it: SELECT pg_terminate_backend({oldest.pid})",
    )


def durability(settings: dict[str, str]) -> Check:
    """Judge whether what was committed lasts."""
    weak = [name for name in ("fsync", "synchronous_commit") if settings.get(name) == "off"]
    if settings.get("synchronous") == "0":
        weak.append("synchronous")
    if not weak:
        return Check("durability", True, "a commit lasts")
    return Check(
        "durability",
        False,
        f"{' and '.join(weak)} is off: after a crash of the server, what was done may be forgotten "
        "and done again.",
    )


def pooler(pooled: bool) -> Check:
    """Say whether hints can come."""
    if not pooled:
        return Check("pooler", True, "none in between: new work is heard of at once")
    return Check("pooler", True, "one in between: no LISTEN, new work is polled for")


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(clean(name) for name in names[:NAMED_MAX])
    more = len(names) - NAMED_MAX
    return f"{shown} and {more} more" if more > 0 else shown
