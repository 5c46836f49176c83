"""What a database says no with: every SQLSTATE of class 23, 25 and 40, MariaDB's and SQLite's own.

Class 23 is a constraint, 25 the state of the transaction, 40 a transaction that was rolled back.
The words here are about one statement that failed; which key it was stands in the error itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal[
    "duplicate",
    "other-constraint",
    "foreign-key",
    "not-null",
    "check",
    "exclusion",
    "aborted-transaction",
    "transaction-state",
    "serialisation",
    "deadlock",
    "rolled-back",
    "unknown",
]
Database = Literal["postgresql", "mariadb", "sqlite"]


@dataclass(frozen=True, slots=True)
class State:
    """One way to be refused. ``page`` is where its database's own documentation has it."""

    code: str
    name: str
    kind: Kind
    meaning: str
    advice: str
    page: str


_POSTGRESQL: Final = "https://www.postgresql.org/docs/current/"
_CODES: Final = f"{_POSTGRESQL}errcodes-appendix.html"
_CONSTRAINTS: Final = f"{_POSTGRESQL}ddl-constraints.html#DDL-CONSTRAINTS-"
_SERIALIZATION: Final = f"{_POSTGRESQL}mvcc-serialization-failure-handling.html"

#: The three sentences about a duplicate. Each is an incident that somebody had.
LOOK_AT_THE_NAME: Final = (
    "Look at the constraint's name: this is a repeat of the same work only where it is the key "
    "that names this work."
)
ANOTHER_CAN_FAIL: Final = (
    "Another unique key can fail too: the server names the first that it met, so it is at least "
    "this one, and every other name is another error, to be raised."
)
PROVES_NO_PAYMENT: Final = (
    "It does not prove that the payment succeeded: a row with this key exists, and only that row "
    "(or the provider) says what became of the work."
)
THREE_SENTENCES: Final = " ".join((LOOK_AT_THE_NAME, ANOTHER_CAN_FAIL, PROVES_NO_PAYMENT))

_MEND = "Mend what is written; the same row will be refused again."
_AGAIN = (
    "Nothing of this transaction was kept. Run the whole transaction again from its first read, a "
    "bounded number of times, with a pause that grows."
)
_OUTSIDE = "Commit or roll back first, and run it outside a transaction."
_ADVICE = {
    "duplicate": THREE_SENTENCES,
    "other-constraint": _MEND,
    "foreign-key": "Write the row that is referred to first, or delete what refers to it first; "
    "do not try again unchanged.",
    "not-null": "Give the column a value; the same row will be refused again.",
    "check": _MEND,
    "exclusion": "A row that conflicts with this one exists. It is no unique key: ON CONFLICT DO "
    "UPDATE does not cover it, DO NOTHING does. Decide which of the two is to stand.",
    "aborted-transaction": "The first error in this transaction is the cause, not this one: find "
    "it earlier in the log, or in the exception's context. Roll back, and begin again; put what "
    "may fail in a savepoint (onejob.duplicate_ok does).",
    "serialisation": _AGAIN,
    "deadlock": f"{_AGAIN} To have fewer, lock rows in one order everywhere.",
    "rolled-back": _AGAIN,
}


def _state(
    code: str, name: str, kind: Kind, meaning: str, advice: str = "", page: str = ""
) -> State:
    return State(code, name, kind, meaning, advice or _ADVICE[kind], page or _CODES)


#: PostgreSQL's, by code; the standard's where it has them.
STATES: Final = {
    state.code: state
    for state in (
        _state(
            "23000",
            "integrity_constraint_violation",
            "other-constraint",
            "a constraint was violated, and the code does not say of which kind",
            "Look for the database's own number beside it (MariaDB: 1062 is a duplicate, 1452 a "
            "foreign key), and for the constraint's name.",
        ),
        _state(
            "23001",
            "restrict_violation",
            "foreign-key",
            "a row that others refer to would go (RESTRICT)",
            page=f"{_CONSTRAINTS}FK",
        ),
        _state(
            "23502",
            "not_null_violation",
            "not-null",
            "a column that must have a value got none",
            page=f"{_CONSTRAINTS}NOT-NULL",
        ),
        _state(
            "23503",
            "foreign_key_violation",
            "foreign-key",
            "the row that is referred to does not exist, or others still refer to this one",
            page=f"{_CONSTRAINTS}FK",
        ),
        _state(
            "23505",
            "unique_violation",
            "duplicate",
            "a row with this unique key exists already",
            page=f"{_CONSTRAINTS}UNIQUE-CONSTRAINTS",
        ),
        _state(
            "23514",
            "check_violation",
            "check",
            "a value does not satisfy a CHECK",
            page=f"{_CONSTRAINTS}CHECK-CONSTRAINTS",
        ),
        _state(
            "23P01",
            "exclusion_violation",
            "exclusion",
            "the row conflicts with another by an exclusion constraint",
            page=f"{_CONSTRAINTS}EXCLUSION",
        ),
        _state(
            "25000",
            "invalid_transaction_state",
            "transaction-state",
            "the transaction's state does not allow this",
            "Look at where the transaction begins and ends around this statement.",
        ),
        _state(
            "25001",
            "active_sql_transaction",
            "transaction-state",
            "this cannot run inside a transaction that has begun",
            f"{_OUTSIDE} CREATE INDEX CONCURRENTLY and VACUUM need a connection in autocommit.",
        ),
        _state(
            "25002",
            "branch_transaction_already_active",
            "transaction-state",
            "a branch of a distributed transaction is active already",
            "End the branch that is active first.",
        ),
        _state(
            "25003",
            "inappropriate_access_mode_for_branch_transaction",
            "transaction-state",
            "a branch of a distributed transaction has another access mode",
            "Begin every branch with the same access mode.",
        ),
        _state(
            "25004",
            "inappropriate_isolation_level_for_branch_transaction",
            "transaction-state",
            "a branch of a distributed transaction has another isolation level",
            "Begin every branch at the same isolation level.",
        ),
        _state(
            "25005",
            "no_active_sql_transaction_for_branch_transaction",
            "transaction-state",
            "there is no transaction for this branch",
            "Begin the transaction before its branch.",
        ),
        _state(
            "25006",
            "read_only_sql_transaction",
            "transaction-state",
            "a write in a transaction, or on a server, that may only read",
            "Write through the primary server's address, in a transaction that is not READ ONLY. "
            "After a failover the old address may be a standby's.",
        ),
        _state(
            "25007",
            "schema_and_data_statement_mixing_not_supported",
            "transaction-state",
            "statements on schema and on data are mixed in one transaction",
            "Put them into two transactions.",
        ),
        _state(
            "25008",
            "held_cursor_requires_same_isolation_level",
            "transaction-state",
            "a cursor that is held needs the isolation level that it was opened at",
            "Close the cursor, or keep the isolation level.",
        ),
        _state(
            "25P01",
            "no_active_sql_transaction",
            "transaction-state",
            "this needs a transaction, and none is open",
            "Begin a transaction first; in autocommit SAVEPOINT and LOCK TABLE have none.",
        ),
        _state(
            "25P02",
            "in_failed_sql_transaction",
            "aborted-transaction",
            "an earlier statement of this transaction failed; every later one is refused",
        ),
        _state(
            "25P03",
            "idle_in_transaction_session_timeout",
            "transaction-state",
            "the session was ended: it had a transaction open, and said nothing for too long",
            "Nothing of the transaction was kept. Keep calls to other services out of "
            "transactions, connect again, and run it again.",
        ),
        _state(
            "25P04",
            "transaction_timeout",
            "transaction-state",
            "the session was ended: its transaction took longer than transaction_timeout",
            "Nothing of the transaction was kept. Make it shorter, or in pieces.",
        ),
        _state(
            "40000",
            "transaction_rollback",
            "rolled-back",
            "the transaction was rolled back",
        ),
        _state(
            "40001",
            "serialization_failure",
            "serialisation",
            "the transaction met a concurrent one that it cannot be ordered with",
            page=_SERIALIZATION,
        ),
        _state(
            "40002",
            "transaction_integrity_constraint_violation",
            "rolled-back",
            "a deferred constraint failed at the end, and the transaction was rolled back",
            f"{_MEND} Read the constraint's name.",
        ),
        _state(
            "40003",
            "statement_completion_unknown",
            "rolled-back",
            "nobody knows whether the statement was carried out",
            "Do not repeat it blindly: look whether its row is there, or repeat it under the same "
            "idempotency key.",
        ),
        _state(
            "40P01",
            "deadlock_detected",
            "deadlock",
            "two transactions waited for each other, and this one was ended",
            page=f"{_POSTGRESQL}explicit-locking.html#LOCKING-DEADLOCKS",
        ),
    )
}

_MYSQL: Final = "https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html#error_"
_MARIADB: Final = "https://mariadb.com/docs/server/reference/error-codes/mariadb-error-codes-"


def _numbered(number: int, code: str, name: str, like: str) -> State:
    state = STATES[like]
    own = number >= 4_000  # numbers below are MySQL's as well
    page = f"{_MARIADB}4000-to-4099/e{number}" if own else f"{_MYSQL}{name.lower()}"
    return State(code, name, state.kind, state.meaning, state.advice, page)


#: MariaDB's and MySQL's, by the server's number: its SQLSTATE 23000 stands for many.
NUMBERS: Final = {
    1022: _numbered(1022, "23000", "ER_DUP_KEY", "23505"),
    1048: _numbered(1048, "23000", "ER_BAD_NULL_ERROR", "23502"),
    1062: _numbered(1062, "23000", "ER_DUP_ENTRY", "23505"),
    1169: _numbered(1169, "23000", "ER_DUP_UNIQUE", "23505"),
    1213: _numbered(1213, "40001", "ER_LOCK_DEADLOCK", "40P01"),
    1216: _numbered(1216, "23000", "ER_NO_REFERENCED_ROW", "23503"),
    1217: _numbered(1217, "23000", "ER_ROW_IS_REFERENCED", "23503"),
    1451: _numbered(1451, "23000", "ER_ROW_IS_REFERENCED_2", "23503"),
    1452: _numbered(1452, "23000", "ER_NO_REFERENCED_ROW_2", "23503"),
    1586: _numbered(1586, "23000", "ER_DUP_ENTRY_WITH_KEY_NAME", "23505"),
    1792: _numbered(1792, "25006", "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION", "25006"),
    3819: _numbered(3819, "HY000", "ER_CHECK_CONSTRAINT_VIOLATED", "23514"),
    4025: _numbered(4025, "23000", "ER_CONSTRAINT_FAILED", "23514"),
}

_RESULT_CODES: Final = "https://www.sqlite.org/rescode.html#"


def _named(name: str, like: str) -> tuple[str, State]:
    state = STATES[like]
    page = _RESULT_CODES + name.removeprefix("SQLITE_").lower()
    return name, State("", name, state.kind, state.meaning, state.advice, page)


#: SQLite's, by the name of its extended result code: it knows no SQLSTATE.
RESULTS: Final = dict(
    (
        _named("SQLITE_CONSTRAINT", "23000"),
        _named("SQLITE_CONSTRAINT_UNIQUE", "23505"),
        _named("SQLITE_CONSTRAINT_PRIMARYKEY", "23505"),
        _named("SQLITE_CONSTRAINT_ROWID", "23505"),
        _named("SQLITE_CONSTRAINT_NOTNULL", "23502"),
        _named("SQLITE_CONSTRAINT_CHECK", "23514"),
        _named("SQLITE_CONSTRAINT_FOREIGNKEY", "23503"),
        _named("SQLITE_BUSY_SNAPSHOT", "40001"),
    )
)
