"""Let one key, by its name, be violated in your transaction, and nothing else.

1. A savepoint, on your connection.
2. Your statements.
3. Where they end well the savepoint is released. Where they fail it is rolled back to, so that your
   transaction goes on; a violation of the named key ends there, and every other error is raised.

The key is told by the error's own fields. SQLite's name columns, so there the table's indexes are
read after the savepoint has been rolled back to. Unknown is not a duplicate: it is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Final

from onejob.adapters import adapter_of
from onejob.core.sqlite_keys import Key, means
from onejob.core.violation import Explanation, Facts, explained
from onejob.errors import UsageError
from onejob.explaining import itself
from onejob.runtime.events import log
from onejob.stores.catalogue import render

#: The unique indexes of a table with their columns, and how the table was created.
_KEYS: Final = """\
SELECT i.name, c.name, NULL
  FROM pragma_index_list(:table_name) AS i
  JOIN pragma_index_info(i.name) AS c
 WHERE i."unique"
UNION ALL
SELECT NULL, NULL, sql
  FROM (SELECT type, name, sql FROM sqlite_master
         UNION ALL SELECT type, name, sql FROM sqlite_temp_master) AS s
 WHERE type = 'table' AND name = :table_name COLLATE NOCASE"""

#: A savepoint of the same name is a second one in PostgreSQL and SQLite. In MariaDB it takes the
#: place of the first, so there each has its own.
_NAME: Final = "onejob_duplicate"
_numbers: Final = count(1)


class duplicate_ok:
    """Take a violation of one unique key, by name, as an answer: ``write.duplicate``.

    ``with onejob.duplicate_ok("invoices_customer_period_key", within=conn) as write:`` and then
    your INSERT. Afterwards ``write.duplicate`` tells whether the key was there, and
    ``write.explanation`` what the error said, else None. Whatever the block wrote is undone with
    it; your transaction stays usable, and is neither committed nor rolled back.

    Every other error is raised as it was, a violation of another unique key as well, and a key
    whose name the error does not tell. ``async with`` for an async connection. It costs two
    statements (SAVEPOINT, RELEASE); ``INSERT … ON CONFLICT (columns) DO NOTHING`` costs none.

    Raises UsageError before any I/O for a connection without a transaction.
    """

    def __init__(self, constraint: str, *, within: Any) -> None:
        if not isinstance(constraint, str) or not constraint.strip():
            raise UsageError(
                "duplicate_ok takes the name of one unique key, such as "
                "'invoices_customer_period_key'. Any violation at all is not a duplicate."
            )
        self.constraint = constraint
        self.duplicate = False
        self.explanation: Explanation | None = None
        self._adapter: Any = adapter_of(within)
        self._point: Any = None

    def __enter__(self) -> duplicate_ok:
        """Make the savepoint."""
        if hasattr(self._adapter, "aexecute"):
            raise UsageError(
                "duplicate_ok got an async connection: write `async with onejob.duplicate_ok(...)`."
            )
        self._adapter.check()
        self._point = _Point(self._adapter)
        self._point.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Release the savepoint, or roll back to it; swallow a violation of this key alone."""
        if error is None:
            try:
                self._point.keep()
            except Exception as late:
                # A Session writes what is pending as the savepoint ends.
                self._point.undo_after(late)
                if not self._is_ours(late):
                    raise
            return False
        return bool(self._point.undo(error)) and self._is_ours(error)

    async def __aenter__(self) -> duplicate_ok:
        """Make the savepoint, in a loop."""
        adapter = self._adapter
        if not hasattr(adapter, "aexecute") and not getattr(adapter, "local", False):
            raise UsageError(
                "duplicate_ok got a sync connection, which would stop the event loop while it "
                "waits for the server: write `with onejob.duplicate_ok(...)` in its own thread."
            )
        adapter.check()
        self._point = _AsyncPoint(adapter)
        await self._point.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """The same in a loop."""
        if error is None:
            try:
                await self._point.keep()
            except Exception as late:
                await self._point.undo_after(late)
                if not await self._ais_ours(late):
                    raise
            return False
        return bool(await self._point.undo(error)) and await self._ais_ours(error)

    def _is_ours(self, error: BaseException) -> bool:
        facts = itself(error)
        asked = _to_be_asked(facts)
        rows = self._adapter.execute(*asked(self._adapter)) if asked else ()
        return self._judged(facts, rows)

    async def _ais_ours(self, error: BaseException) -> bool:
        facts = itself(error)
        asked = _to_be_asked(facts)
        rows = await _carried(self._adapter, *asked(self._adapter)) if asked else ()
        return self._judged(facts, rows)

    def _judged(self, facts: Facts | None, rows: Sequence[Sequence[Any]]) -> bool:
        if facts is None or facts.state.kind != "duplicate" or not self._names(facts, rows):
            return False
        self.duplicate = True
        self.explanation = explained(facts)
        return True

    def _names(self, facts: Facts, rows: Sequence[Sequence[Any]]) -> bool:
        if facts.database == "postgresql":
            return facts.constraint == self.constraint
        if facts.constraint:  # the others compare names of keys without case
            names = (facts.constraint, f"{facts.table}.{facts.constraint}")
            return self.constraint.casefold() in {name.casefold() for name in names}
        indexes: dict[str, list[str]] = {}
        for index, column, _ in rows:
            if index is not None:
                indexes.setdefault(index, []).append(column or "")
        keys = [Key(name, tuple(columns)) for name, columns in indexes.items()]
        created = next((text for _, _, text in rows if text), None)
        return means(self.constraint, facts.columns, keys, created)


def _to_be_asked(facts: Facts | None) -> Any:
    """Return how to ask for the table's keys, where the error does not name one."""
    if facts is None or facts.database != "sqlite" or facts.constraint or not facts.table:
        return None
    if facts.state.kind != "duplicate":
        return None
    table = facts.table

    def question(adapter: Any) -> tuple[str, Mapping[str, Any]]:
        step = render(_KEYS, adapter.style)
        return step.text, step.given({"table_name": table}).parameters

    return question


async def _carried(
    adapter: Any, text: str, parameters: Mapping[str, Any]
) -> Sequence[Sequence[Any]]:
    rows: Sequence[Sequence[Any]]
    if hasattr(adapter, "aexecute"):
        rows = await adapter.aexecute(text, parameters)
    else:
        rows = adapter.execute(text, parameters)
    return rows


def _texts(adapter: Any) -> tuple[str, str, str]:
    name = f"{_NAME}_{next(_numbers)}" if adapter.dialect == "mariadb" else _NAME
    return f"SAVEPOINT {name}", f"RELEASE SAVEPOINT {name}", f"ROLLBACK TO SAVEPOINT {name}"


class _Point:
    """One savepoint: a library's own, so that it knows of it, or made with SQL."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._own = adapter.savepoint() if hasattr(adapter, "savepoint") else None
        self._begin, self._release, self._back = _texts(adapter)

    def begin(self) -> None:
        if self._own is not None:
            self._own.__enter__()
        else:
            self._adapter.execute(self._begin, {})

    def keep(self) -> None:
        if self._own is not None:
            self._own.__exit__(None, None, None)
        else:
            self._adapter.execute(self._release, {})

    def undo(self, error: BaseException) -> bool:
        """Roll back to it; False where there is nothing left to go back to."""
        try:
            if self._own is not None:
                self._own.__exit__(type(error), error, error.__traceback__)
            else:
                self._adapter.execute(self._back, {})
                self._adapter.execute(self._release, {})
        except Exception as failure:  # noqa: BLE001 - what the block raised says more
            _nothing_left(failure)
            return False
        return bool(self._adapter.open)

    def undo_after(self, late: Exception) -> None:
        """Roll back where releasing failed; a library's own has done so."""
        if self._own is None:
            self.undo(late)


class _AsyncPoint:
    """The same in a loop."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._own = adapter.savepoint() if hasattr(adapter, "savepoint") else None
        self._begin, self._release, self._back = _texts(adapter)

    async def begin(self) -> None:
        if self._own is not None:
            await self._own.__aenter__()
        else:
            await _carried(self._adapter, self._begin, {})

    async def keep(self) -> None:
        if self._own is not None:
            await self._own.__aexit__(None, None, None)
        else:
            await _carried(self._adapter, self._release, {})

    async def undo(self, error: BaseException) -> bool:
        try:
            if self._own is not None:
                await self._own.__aexit__(type(error), error, error.__traceback__)
            else:
                await _carried(self._adapter, self._back, {})
                await _carried(self._adapter, self._release, {})
        except Exception as failure:  # noqa: BLE001 - what the block raised says more
            _nothing_left(failure)
            return False
        return bool(self._adapter.open)

    async def undo_after(self, late: Exception) -> None:
        if self._own is None:
            await self.undo(late)


def _nothing_left(failure: Exception) -> None:
    """A deadlock, a lost server or a COMMIT in the block has ended the transaction as a whole."""
    log.debug("the savepoint is gone with its transaction: %s", type(failure).__name__)
