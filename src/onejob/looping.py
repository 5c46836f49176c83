"""How the effects of many items happen, each once.

1. Read which items of a page are done, with one command; hold no more than a page.
2. Claim as many as can be called now, with one command.
3. Call them, each in a place of its own.
4. Record what ended meanwhile, with one command. Back to 2, and to 1 when the page is used up.

While a command is under way calls end, and what ended waits together for the next one: the slower
the store, the larger the batches. An item is claimed just before its call. What a batch cannot
settle (an unknown outcome whose policy is to repeat or to ask) goes the way of a single effect.

The procedure only asks; ``crews`` carries it out in either colour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from onejob.commands import ledger, runs
from onejob.commands.command import Command, as_json
from onejob.commands.ledger import Record
from onejob.core import each as rules
from onejob.core.each import NAMED_MAX, PAGE, EachResult, SetAside, Why
from onejob.core.effect import Entry, EntryState, IfUnknown
from onejob.core.keys import provider_key
from onejob.core.meaning import Meaning
from onejob.core.run import Token, error_text
from onejob.core.time import SECOND
from onejob.each import Loop
from onejob.effect import EffectFailed
from onejob.errors import (
    EffectUnknown,
    InProgress,
    ItemsSetAside,
    KeyReused,
    LeaseLost,
    OutcomeUnknown,
    StoreError,
    UsageError,
)
from onejob.loop_steps import Begin, Collect, Ended, NextItems, Recall, Steps, Task, Unit
from onejob.procedure import RECORD_TRIES, said_by, still_holds, superseded
from onejob.runtime.events import Events

#: How often a loop's progress is recorded.
PROGRESS_SPAN: Final = SECOND


@dataclass(slots=True)
class Looping:
    """One loop under way. ``stop`` ends it early: nothing new is claimed, what ran is recorded."""

    loop: Loop
    events: Events
    lost: Callable[[], str]
    now: Callable[[], int]
    stop: BaseException | None = None
    result: EachResult = field(default_factory=EachResult)
    _fresh: deque[tuple[str, Any]] = field(default_factory=deque)
    _settling: deque[tuple[str, Any]] = field(default_factory=deque)
    _outstanding: dict[str, Task] = field(default_factory=dict)
    _records: list[Record] = field(default_factory=list)
    _unsent: dict[str, Token] = field(default_factory=dict)
    _told: int = 0

    def steps(self) -> Steps[EachResult]:
        """Go through all items; return what became of them."""
        self.result = EachResult(scope=self.loop.scope)
        self._told = self.now()
        more, ahead = True, 0
        while more or self._fresh or self._settling or self._outstanding:
            self.look()
            if self.stop is not None:
                more = False
                yield from self._wind_down()
                continue
            if more and not self._fresh and not self._settling:
                more = yield from self._more()
            yield from self._claim(ahead)
            # Calls that began together end together: what one answer of the store was too late for
            # is kept in mind for a few more.
            ahead = max((yield from self._collect(wait=True)), ahead * 7 // 8)
            yield from self._write()
            yield from self.tell()
        return (yield from self._end())

    def _end(self) -> Steps[EachResult]:
        yield from self.tell(last=True)
        if self.stop is not None:
            raise self.stop
        if self.loop.on_error == "retry" and self.result.set_aside:
            raise ItemsSetAside(str(self.result), self.result)
        return self.result

    def look(self) -> None:
        """Stop where the attempt is over."""
        if self.stop is None and (why := self.lost()):
            self.stop = LeaseLost(f"run {self.loop.scope}", token=self.loop.claim.token, why=why)

    def _more(self) -> Steps[bool]:
        """Read a page; where that fails, what is under way is brought to its end first."""
        try:
            return (yield from self.page())
        except Exception as error:  # noqa: BLE001 - raised at the end
            self.stop = error
            return False

    def page(self) -> Steps[bool]:
        """Read the next items and how they stand; return whether there may be more."""
        items: list[Any] = yield NextItems(PAGE)
        page = {self.loop.named(item): item for item in items}
        content = {key: self.loop.content(item) for key, item in page.items()}
        known = yield from self.known(page)
        twice = len(items) - len(page)
        for key, item in page.items():
            if key in self._outstanding:
                twice += 1
                continue
            self._sort(key, item, known.get(key), content[key])
        self.skip(twice)  # the same item again is done with the first of them
        return len(items) == PAGE

    def skip(self, count: int = 1) -> None:
        """Count items that were done before."""
        self.result = replace(self.result, skipped=self.result.skipped + count)

    def one_by_one(self) -> Steps[EachResult]:
        """Do every item in a transaction of its own, and record it in there; the same otherwise.

        One after the other: each holds the run's row to its end.
        """
        self.result = EachResult(scope=self.loop.scope)
        more = True
        while self.stop is None and (more or self._fresh):
            if not self._fresh:
                more = yield from self.page()
            while self._fresh and self.stop is None:
                self.look()
                if self.stop is None:
                    yield from self._unit(*self._fresh.popleft())
                    yield from self.tell()
        return (yield from self._end())

    def _unit(self, key: str, item: Any) -> Steps[None]:
        try:
            first = yield Unit(item, key)
        except (LeaseLost, StoreError, UsageError) as error:
            self.stop = error
        except Exception as error:  # noqa: BLE001 - the caller's call: rolled back, and told
            self.set_aside(key, "error", error_text(error), error)
        else:
            self.result = replace(
                self.result,
                done=self.result.done + first,
                skipped=self.result.skipped + (not first),
            )

    def known(self, keys: Iterable[str]) -> Steps[dict[str, Entry]]:
        """Read how these keys stand, with one command."""
        wanted = list(keys)
        if not wanted:
            return {}
        entries: tuple[Entry, ...] = yield ledger.read(self.loop.scope, wanted)
        return {entry.key: entry for entry in entries}

    def _sort(self, key: str, item: Any, entry: Entry | None, content: str) -> None:
        owner, policy = self.loop.owner, self.loop.policy
        match rules.sort(key, entry, policy, owner=owner, fingerprint=content):
            case rules.Fresh():
                self._fresh.append((key, item))
            case rules.Skip():
                self.skip()
            case rules.Settle():
                self._settling.append((key, item))
            case SetAside(_, state, why):
                self.set_aside(key, state, why)

    def _claim(self, ended_meanwhile: int) -> Steps[None]:
        """Claim what can be called now, and hand it to the crew."""
        places = rules.room(
            concurrency=self.loop.concurrency,
            outstanding=len(self._outstanding),
            ended_meanwhile=ended_meanwhile,
        )
        alone = [self._settling.popleft() for _ in range(min(places, len(self._settling)))]
        batch = dict(
            self._fresh.popleft() for _ in range(min(places - len(alone), len(self._fresh)))
        )
        tasks = [Task(item, key, None, self.loop.request(item, key)) for key, item in alone]
        if batch:
            tokens = yield from self._tokens(batch)
            tasks += [Task(item, key, tokens[key]) for key, item in batch.items() if key in tokens]
        self._outstanding.update((task.key, task) for task in tasks)
        if tasks:
            yield Begin(tasks)

    def _tokens(self, batch: dict[str, Any]) -> Steps[dict[str, Token]]:
        """Claim these items; what was refused is looked at again, and sorted anew."""
        content = {key: self.loop.content(item) for key, item in batch.items()}
        command = ledger.claim_many_in_run(
            self.loop.claim, self.loop.scope, content, owner=self.loop.owner
        )
        tokens: dict[str, Token] = {}
        try:
            tokens = dict((yield command))
        except OutcomeUnknown:
            pass  # the entries themselves tell, by this loop's own name in them
        except StoreError as error:
            self.stop = error
            return {}
        refused = [key for key in batch if key not in tokens]
        if not refused:
            return tokens
        try:
            known = yield from self.known(refused)
            if len(known) < len(refused):
                yield from still_holds(self.loop.claim, self.loop.scope)
        except (StoreError, LeaseLost) as error:
            self.stop = error
            return tokens
        for key in refused:
            entry = known.get(key)
            if entry and (entry.owner, entry.state) == (self.loop.owner, EntryState.CLAIMED):
                tokens[key] = entry.token
            else:
                self._sort(key, batch[key], entry, content[key])
        return tokens

    def _collect(self, *, wait: bool) -> Steps[int]:
        """Take note of what ended; return how many did while nobody waited for them."""
        if not self._outstanding:
            return 0
        ended, waited = yield Collect(wait)
        for one in ended:
            self._note(one)
        return 0 if waited else len(ended)

    def _note(self, ended: Ended) -> None:
        task = ended.task
        if task.token is None:
            self._note_alone(task.key, ended.error)
            return
        record, error = self._record_of(ended), ended.error
        if record is None:
            self._unsent[task.key] = task.token
        else:
            self._records.append(record)
        if error is None:
            return
        state: Why = "error" if record is None else "failed"
        if record is not None and record.state is EntryState.UNKNOWN:
            state = "unknown"
        self.set_aside(task.key, state, error_text(error), error)
        if not isinstance(error, Exception) and self.stop is None:
            self.stop = error

    def _record_of(self, ended: Ended) -> Record | None:
        """Return what to record of a call; None where the claim is to be released."""
        key, token, error = ended.task.key, ended.task.token, ended.error
        assert token is not None, "an effect by itself records itself"
        if error is None:
            return Record(key, token, EntryState.DONE, self.loop.encoded(ended.value))
        why = error_text(error)
        said = said_by(error, self.loop.final) if isinstance(error, Exception) else Meaning.UNKNOWN
        match said:
            case Meaning.FINAL:
                return Record(key, token, EntryState.FAILED, error=why)
            case Meaning.UNKNOWN:
                return Record(key, token, EntryState.UNKNOWN, error=why)
            case Meaning.NOT_SENT | Meaning.REFUSED:
                return None

    def afterwards(self, ended: Ended) -> Command[frozenset[str]]:
        """Return what to tell the store of a call that outlived its loop."""
        task, record = ended.task, self._record_of(ended)
        assert task.token is not None, "an effect by itself records itself"
        if record is None:
            return ledger.release_many(self.loop.scope, {task.key: task.token})
        return ledger.record_many(self.loop.scope, [record], keep=self.loop.keep)

    def _note_alone(self, key: str, error: BaseException | None) -> None:
        """Take note of an effect that was carried out, and recorded, by itself."""
        del self._outstanding[key]
        match error:
            case None:
                self.result = replace(self.result, done=self.result.done + 1)
            case EffectFailed():
                self.set_aside(key, "failed", error.reason, error)
            case EffectUnknown():
                # The policy has had its say: what is left needs a person.
                self.set_aside(key, "unknown", error.why, error, repeatable=False)
            case InProgress():
                self.set_aside(key, "in progress", error_text(error), error)
            case KeyReused():
                self.set_aside(key, "key reused", error_text(error), error)
            case LeaseLost():
                self.stop = self.stop or error
            case _:
                self.set_aside(key, "unknown", error_text(error), error)
                if not isinstance(error, Exception):
                    self.stop = self.stop or error

    def _write(self) -> Steps[None]:
        """Record what ended since the last time."""
        if self._unsent:
            released = dict(self._unsent)
            # Where the store does not answer the claim stays, and is settled as unknown.
            yield from self._sent(ledger.release_many(self.loop.scope, released), ())
            for key in released:
                self._unsent.pop(key, None)
                self._outstanding.pop(key, None)
        if self._records:
            batch = list(self._records)
            command = ledger.record_many(self.loop.scope, batch, keep=self.loop.keep)
            accepted = yield from self._sent(command, [one.key for one in batch])
            done = 0
            for one in batch:
                done += one.state is EntryState.DONE and one.key in accepted
                if one.key not in accepted:
                    scope = self.loop.scope
                    lost = superseded(scope, one.key, one.token, one.state, self.events)
                    self.stop = self.stop or lost
                self._outstanding.pop(one.key, None)
            self._records.clear()
            self.result = replace(self.result, done=self.result.done + done)

    def _sent(self, command: Command[frozenset[str]], keys: Iterable[str]) -> Steps[frozenset[str]]:
        """Send a write, again where its reply is missing; at last stop, and raise its error.

        What it was about then stands as ``keys``: claimed, and so unknown.
        """
        for tries_left in reversed(range(RECORD_TRIES)):
            try:
                answer: frozenset[str] = yield command
            except StoreError as error:
                if not tries_left:
                    self.stop = self.stop or error
            else:
                return answer
        return frozenset(keys)

    def _wind_down(self) -> Steps[None]:
        """Claim nothing more, give back what nobody has begun, and record the rest as it ends."""
        self._fresh.clear()
        self._settling.clear()
        tasks: list[Task] = yield Recall()
        for task in tasks:
            if task.token is None:
                del self._outstanding[task.key]
            else:
                self._unsent[task.key] = task.token
        if len(self._outstanding) > len(self._unsent) + len(self._records):
            yield from self._collect(wait=True)
        yield from self._write()

    def tell(self, *, last: bool = False) -> Steps[None]:
        """Record how far the loop is, once a second, and at its end."""
        now = self.now()
        if (self.stop is not None) or (not last and now - self._told < PROGRESS_SPAN):
            return
        self._told = now
        left = self.result.set_aside + self.result.unknown
        note = f"{self.result.set_aside} set aside, {self.result.unknown} unknown" if left else ""
        text = as_json({"done": self.result.seen, "total": self.loop.total, "note": note})
        try:
            yield runs.progress(self.loop.claim, text)
        except StoreError as error:
            self.events.emit("store.trouble", doing="progress", error=str(error))

    def set_aside(
        self,
        key: str,
        state: Why,
        why: str,
        error: BaseException | None = None,
        *,
        repeatable: bool | None = None,
    ) -> None:
        """Count, name and tell of an item that was not done."""
        unknown = state == "unknown"
        if repeatable is None:
            repeatable = error is not None and self.loop.policy.if_unknown is not IfUnknown.RAISE
        result = self.result
        self.result = replace(
            result,
            set_aside=result.set_aside + (not unknown),
            unknown=result.unknown + unknown,
            repeatable=result.repeatable + (unknown and repeatable),
            items=(*result.items, SetAside(key, state, why))[:NAMED_MAX],
        )
        self.events.emit("item.set_aside", scope=self.loop.scope, key=key, state=state, why=why)
        if self.loop.on_error == "raise" and self.stop is None:
            self.stop = error or ItemsSetAside(str(self.result), self.result)
            if unknown and not repeatable:
                name = provider_key(self.loop.app, self.loop.scope, key)
                self.stop = EffectUnknown(self.loop.scope, key, provider_key=name, why=why)
