"""What databases print, in the languages that they speak: names out, values left in."""

from __future__ import annotations

import time

import psycopg.errors
import pytest

from onejob import Explanation, UsageError, explain
from onejob.core.sqlstates import NUMBERS, RESULTS, STATES, THREE_SENTENCES
from onejob.core.violation_text import LINE_CHARACTERS_MAX, violations
from onejob.core.violation_words import split

#: As PostgreSQL 15 words a violation of a unique key, by the name that its languages have.
UNIQUE = {
    "de": "FEHLER:  {code}doppelter Schlüsselwert verletzt Unique-Constraint »{key}«",
    "en": 'ERROR:  {code}duplicate key value violates unique constraint "{key}"',
    "es": "ERROR:  {code}llave duplicada viola restricción de unicidad «{key}»",
    "fr": "ERREUR:  {code}la valeur d'une clé dupliquée rompt la contrainte unique « {key} »",
    "it": 'ERRORE:  {code}un valore chiave duplicato viola il vincolo univoco "{key}"',
    "ja": 'ERROR:  {code}重複したキー値は一意性制約"{key}"違反となります',
    "ko": '오류:  {code}중복된 키 값이 "{key}" 고유 제약 조건을 위반함',
    "ru": 'ОШИБКА:  {code}повторяющееся значение ключа нарушает ограничение уникальности "{key}"',
    "sv": 'FEL:  {code}duplicerat nyckelvärde bryter mot unik-villkor "{key}"',
    "zh": '错误:  {code}重复键值违反唯一约束 "{key}"',
}


@pytest.mark.parametrize("language", UNIQUE)
def test_a_log_of_postgresql_is_read_in_its_languages(language: str) -> None:
    """The SQLSTATE stands in log_line_prefix (%e), or in what psql prints when it is verbose."""
    message = UNIQUE[language]
    prefix = "2026-11-30 09:00:00.123 UTC [4711] 23505 shop@db "

    verbose = explain(message.format(code="23505: ", key="invoices_key"))
    logged = explain(prefix + message.format(code="", key="invoices_key"))

    for found in (verbose, logged):
        assert (found.sqlstate, found.kind, found.constraint) == (
            "23505",
            "duplicate",
            "invoices_key",
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ERREUR:  23503: une instruction insert ou update sur la table « t » viole la "
            "contrainte de clé\nétrangère « c »",
            ("23503", "foreign-key", "t", "c", ()),
        ),
        (
            'ERROR:  23503: テーブル"t"の更新または削除は、'
            'テーブル"u"の外部キー制約"c"に違反します',
            ("23503", "foreign-key", "t", "c", ()),
        ),
        (
            'ERROR:  23502: リレーション"t"の列"k"のNULL値が非NULL制約に違反しています',
            ("23502", "not-null", "t", None, ("k",)),
        ),
        (
            "FEHLER:  23502: NULL-Wert in Spalte »k« von Relation »t« verletzt Not-Null-Constraint",
            ("23502", "not-null", "t", None, ("k",)),
        ),
        (
            "ERROR:  23514: el nuevo registro para la relación «t» viola la restricción "
            "«check» «c»",
            ("23514", "check", "t", "c", ()),
        ),
        (
            'ERROR:  conflicting key value violates exclusion constraint "c"',
            ("23P01", "exclusion", None, "c", ()),
        ),
        ("FEHLER:  40P01: Verklemmung (Deadlock) entdeckt", ("40P01", "deadlock", None, None, ())),
        (
            "ERROR:  could not serialize access due to concurrent update",
            ("40001", "serialisation", None, None, ()),
        ),
        (
            "ERROR:  current transaction is aborted, commands ignored until end of transaction",
            ("25P02", "aborted-transaction", None, None, ()),
        ),
        (
            "ERROR:  23505: doppelter »k«\nDETAIL:  Schlüssel »(a, lower(b))=(1, x)« existiert "
            "bereits.\nSCHEMANAME:  public\nTABELLENNAME:  t\nCONSTRAINT-NAME:  k",
            ("23505", "duplicate", "t", "k", ("a", "lower(b)")),
        ),
    ],
)
def test_each_kind_has_its_names_where_a_language_puts_them(
    text: str, expected: tuple[object, ...]
) -> None:
    found = explain(text)

    assert (
        found.sqlstate,
        found.kind,
        found.table,
        found.constraint,
        found.columns,
    ) == expected


@pytest.mark.parametrize(
    ("text", "constraint", "columns"),
    [
        (
            '{"error_severity":"ERROR","state_code":"23505","message":"duplicate key value '
            'violates unique constraint \\"k\\"","detail":"Key (a, b)=(1, 2) already exists."}',
            "k",
            ("a", "b"),
        ),
        (
            '2026-11-30 UTC,"u","d",1,"h:1",6,1,"INSERT",2026,3/2,0,FEHLER,23505,"doppelter »k«",'
            '"Schlüssel »(a)=(1)« existiert bereits.",,,',
            "k",
            ("a",),
        ),
        ('{"err":{"code":"23505","constraint":"k","detail":"Key (a)=(1) exists"}}', "k", ("a",)),
        ('ERROR: duplicate key value violates unique constraint "k" (SQLSTATE 23505)', "k", ()),
        ('PG::UniqueViolation: ERROR: duplicate key value violates unique constraint "k"', "k", ()),
        ("psycopg.errors.UniqueViolation: doppelter Schlüsselwert verletzt »k«", "k", ()),
        ("SQLSTATE[23000]: Integrity violation: 1062 Duplicate entry '1' for key 'k'", "k", ()),
        ("Error: ER_DUP_ENTRY: Duplicate entry '1' for key 't.k'", "k", ()),
        ("(1062, \"Duplicate entry '1' for key 'k'\")", "k", ()),
    ],
)
def test_other_programs_write_it_in_their_own_ways(
    text: str, constraint: str, columns: tuple[str, ...]
) -> None:
    found = explain(text)

    assert (found.kind, found.constraint, found.columns) == ("duplicate", constraint, columns)


@pytest.mark.parametrize(
    "between",
    [
        "Duplicate entry '{}' for key '{}'",
        "Doppelter Eintrag '{}' für Schlüssel '{}'",
        "Duplicata du champ '{}' pour la clef '{}'",
        "'{}' は索引 '{}' で重複しています。",
        "重复条目'{}'键'{}'",
        "Entrada duplicada '{}' para la clave '{}'",
        "Дублирующаяся запись '{}' по ключу '{}'",
        "Valore duplicato '{}' per la chiave '{}'",
    ],
)
@pytest.mark.parametrize("entry", ["ada@example.com", "it's", "a' for key 'other_key"])
def test_a_message_of_mariadb_names_its_last_key_and_never_an_entry(
    between: str, entry: str
) -> None:
    """Whoever chooses a value must not choose which key is said to be violated."""
    found = explain(f"ERROR 1062 (23000) at line 1: {between.format(entry, 'mail_key')}")

    assert (found.sqlstate, found.name, found.constraint) == ("23000", "ER_DUP_ENTRY", "mail_key")
    assert entry not in f"{found} {found!r}"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30 10:00:00 [23505] LOG:  checkpoint starting: time",
        '2026-11-30 [23505] app@shop ERROR:  relation "x" does not exist',
        "2026-11-30 [40001] app@shop ERROR:  division by zero",
        "listening on port 40001",
        "GET /orders/23505 200",
        "    except psycopg.errors.UniqueViolation:",
        'ERROR:  relation "duplicate" does not exist',
        "",
    ],
)
def test_a_number_that_looks_like_a_code_is_none(text: str) -> None:
    assert explain(text).kind == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "Duplicate entry 'secret' for k",
        "ERROR 1062 (23000): Duplicate entry 'secret",
        "ERROR 1062 (23000): 'secret' 'secret' in no known language",
        'DETAIL:  Key (mail)=(secret) already exists.\nERROR:  23505: duplicate key value "',
        'ERROR:  duplicate key value violates unique constraint "k"\nDETAIL:  Key (a)=(secret) ex',
        'ERROR:  23502: null value in column "k" of relation "t" violates not-null constraint\n'
        "DETAIL:  Failing row contains (1, secret).",
    ],
)
def test_no_value_of_a_row_gets_out_unless_it_is_asked_for(text: str) -> None:
    """E03: also where a line was cut, or is in a language that is not known."""
    found = explain(text)

    assert found.kind != "unknown"
    assert "secret" not in f"{found} {found!r}"


def test_values_are_told_where_they_are_asked_for() -> None:
    text = (
        'ERROR:  duplicate key value violates unique constraint "k"\nDETAIL:  Key (a)=(x) exists.'
    )

    assert explain(text).values is None
    assert explain(text, values=True).values == "x"
    assert "x)" not in repr(explain(text, values=True))


def test_a_duplicate_says_the_three_things_to_know() -> None:
    """E01, E03: the name counts, it is at least this one, and no payment is proved."""
    found = explain('ERROR:  duplicate key value violates unique constraint "invoices_key"')

    assert THREE_SENTENCES in found.advice
    for words in ("the constraint's name", "Another unique key can fail", "at least this one"):
        assert words in found.advice
    assert "does not prove that the payment succeeded" in found.advice
    assert "onejob.duplicate_ok('invoices_key', within=conn)" in found.advice
    assert found.reference.startswith("https://www.postgresql.org/docs/current/")


def test_only_the_key_that_is_asked_for_is_a_duplicate() -> None:
    """E01: kind and answer agree."""
    text = 'ERROR:  duplicate key value violates unique constraint "users_email_key"'

    assert explain(text).is_duplicate_of("users_email_key")
    assert not explain(text).is_duplicate_of("invoices_key")
    assert not explain(text).is_duplicate_of("")
    other = explain(text, constraint="invoices_key")
    assert (other.kind, other.is_duplicate_of("users_email_key")) == ("other-constraint", False)
    assert "This is users_email_key, not invoices_key" in other.advice
    assert explain(text, constraint="users_email_key").kind == "duplicate"


def test_a_key_of_sqlite_can_be_asked_for_by_its_columns() -> None:
    found = explain("sqlite3.IntegrityError: UNIQUE constraint failed: t.a, t.b")

    assert (found.sqlstate, found.name) == (None, "SQLITE_CONSTRAINT_UNIQUE")
    assert found.is_duplicate_of("t(a, b)")
    assert found.is_duplicate_of("t(b,a)")
    assert not found.is_duplicate_of("t(a)")
    assert not found.is_duplicate_of("u(a, b)")
    assert not found.is_duplicate_of("t_a_b_key")


def test_an_index_that_cannot_be_built_is_told_apart_from_a_repeat() -> None:
    found = explain(
        'ERROR:  could not create unique index "k"\nDETAIL:  Key (a)=(1) is duplicated.'
    )

    assert (found.sqlstate, found.constraint, found.columns) == ("23505", "k", ("a",))
    assert "onejob check-unique" in found.advice


def test_every_violation_in_a_log_is_found_in_its_order() -> None:
    log = [
        '2026 [1] 23505 ERROR:  duplicate key value violates unique constraint "a"\n',
        "2026 [1] 23505 DETAIL:  Key (x)=(1) already exists.\n",
        "2026 [1] 23505 STATEMENT:  INSERT INTO t VALUES ('deadlock')\n",
        "2026 [1] 25P02 ERROR:  current transaction is aborted, commands ignored until end\n",
        "x" * (LINE_CHARACTERS_MAX + 1) + "deadlock detected\n",
        "2026 [2] 40P01 FEHLER:  Verklemmung (Deadlock) entdeckt\n",
    ]

    found = list(violations(log))

    assert [facts.state.code for facts in found] == ["23505", "25P02", "40P01"]
    assert found[0].columns == ("x",)


def test_every_code_of_the_three_classes_is_known() -> None:
    """Those of the driver that has PostgreSQL's whole list."""
    known = {
        code
        for kind in vars(psycopg.errors).values()
        if isinstance(kind, type)
        and isinstance(code := getattr(kind, "sqlstate", None), str)
        and code[:2] in ("23", "25", "40")
    }

    assert len(known) > 20
    assert known - set(STATES) == set()


def test_every_way_to_be_refused_says_what_to_do_and_where_to_read() -> None:
    for state in (*STATES.values(), *NUMBERS.values(), *RESULTS.values()):
        assert state.meaning
        assert len(state.advice) > 20
        assert state.page.startswith("https://")


def test_parentheses_of_a_logs_prefix_are_no_columns() -> None:
    """log_line_prefix with %r: host(port)."""
    prefix = "2026 127.0.0.1(54321) 23505 "
    text = (
        f'{prefix}ERROR:  duplicate key value violates unique constraint "k"\n'
        f"{prefix}DETAIL:  Key (a, lower(b))=(f(x), y) already exists."
    )

    found = explain(text, values=True)

    assert (found.columns, found.values) == (("a", "lower(b)"), "f(x), y")


@pytest.mark.parametrize(
    "line",
    [
        'ERROR:  duplicate key value violates unique constraint "k" ' + "(" * 20_000,
        "23505 " + "a " * 10_000,
        "23505 " * 3_300,
        "error 1062 " * 1_800,
        "(SQLSTATE " * 2_000,
        "Duplicate entry '" + "' for key '" * 1_800,
        '(1452, "' + "`a`, CONSTRAINT " * 1_200,
        "ERROR:  duplicate key value violates unique constraint " + "()=(" * 5_000,
    ],
)
def test_no_line_takes_long_to_read(line: str) -> None:
    """Whoever can write to a log must not stop whoever reads it: CPU time, so busy or not."""
    began = time.process_time()

    list(violations([line]))

    assert time.process_time() - began < 2


def test_columns_are_parted_at_their_own_commas() -> None:
    assert split('a, lower(b), "c, d", coalesce(e, f)') == (
        "a",
        "lower(b)",
        "c, d",
        "coalesce(e, f)",
    )


def test_what_is_neither_an_exception_nor_text_is_refused() -> None:
    with pytest.raises(UsageError, match="exception or text"):
        explain(None)  # type: ignore[arg-type]
    assert isinstance(explain("nothing here"), Explanation)
