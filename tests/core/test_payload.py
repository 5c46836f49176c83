"""Arguments and results as JSON: equal when they come back, or refused where they are given."""

from __future__ import annotations

import asyncio
import collections
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    Union,
)
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.payload import Signature
from onejob.errors import UsageError

if TYPE_CHECKING:
    from elsewhere import AsyncRun, Missing  # pyright: ignore


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Shape(Enum):
    SQUARE = (1, 1)
    WIDE = (2, 1)


@dataclass(frozen=True)
class Line:
    price: Decimal
    note: str | None = None


@dataclass
class Order:
    id: UUID
    lines: list[Line]
    parent: Order | None = None
    total: Decimal = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum((line.price for line in self.lines), Decimal(0))


@dataclass
class Forgetful:
    kept: int
    lost: InitVar[int]


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Options(TypedDict):
    since: date
    until: NotRequired[date]


class Run:
    pass


class Connection:
    pass


UserId = NewType("UserId", int)
Pair = collections.namedtuple("Pair", "left right")


def taking(hint: Any) -> Signature:
    def job(value: Any) -> None: ...

    job.__annotations__["value"] = hint
    return Signature.of(job)


def round_trip(signature: Signature, value: object) -> object:
    bound = signature.bind((value,), {})
    text = signature.encode(bound)
    back = signature.decode(text)
    assert signature.encode(back) == text
    return back["value"]


ORDER = Order(UUID(int=7), [Line(Decimal("1.50")), Line(Decimal(2), "x")], Order(UUID(int=1), []))


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Any, {"a": [1, 2.5, True, None, "x"], "": {}}),
        (Any, 2**53 + 1),
        (Any, -(2**300)),
        (int, 2**64),
        (float, 0.1),
        (float, 2**53 + 1),
        (str, "grüße \U0001f4e7 \0"),
        (None, None),
        (datetime, datetime(2026, 3, 29, 1, 0, 0, 5, tzinfo=UTC)),
        (date, date(2026, 3, 29)),
        (time, time(1, 2, 3, 4)),
        (timedelta, timedelta(days=-1, microseconds=3)),
        (timedelta, timedelta.max),
        (UUID, UUID(int=2**127)),
        (Decimal, Decimal("-1.500")),
        (Decimal, Decimal("1E+400")),
        (bytes, bytes(range(256))),
        (Color, Color.RED),
        (Level, Level.HIGH),
        (Shape, Shape.WIDE),
        (list[date], [date(2026, 1, 1)]),
        (Sequence[int], [1, 2]),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2, 3)),
        (tuple[()], ()),
        (tuple, (1, "a")),
        (set[UUID], {UUID(int=n) for n in range(5)}),
        (frozenset[int], frozenset({3, 1})),
        (dict[int, Decimal], {1: Decimal(2), 10: Decimal(3)}),
        (dict[date, int], {date(2026, 1, 1): 1}),
        (dict[tuple[int, int], str], {(1, 2): "x"}),
        (dict[str, Any], {"1": [1]}),
        (Optional[int], None),  # noqa: UP045
        (Union[int, str], "7"),  # noqa: UP007
        (int | float, 1.0),
        (UUID | str, "not a uuid"),
        (datetime | None, datetime(2026, 3, 29, tzinfo=UTC)),
        (list[Line] | Line, [Line(Decimal(1))]),
        (Literal["a", 1, None], 1),
        (Order, ORDER),
        (Point, Point(1, 2.5)),
        (Pair, Pair(1, ["x"])),
        (Options, {"since": date(2026, 1, 1)}),
        (Options, {"since": date(2026, 1, 1), "until": date(2026, 2, 1)}),
        (UserId, 7),
    ],
)
def test_a_value_comes_back_equal_and_of_its_type(hint: Any, value: object) -> None:
    """F16."""
    back = round_trip(taking(hint), value)

    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("hint", "value", "says"),
    [
        (Any, {1}, r"args\.value: a set cannot come back.*annotate it"),
        (Any, (1,), r"args\.value: a tuple cannot"),
        (Any, b"x", "bytes cannot"),
        (Any, UUID(int=1), "a UUID cannot"),
        (Any, Decimal(1), "a Decimal cannot"),
        (Any, datetime(2026, 1, 1, tzinfo=UTC), "a datetime cannot"),
        (Any, Color.RED, "a Color cannot"),
        (Any, float("nan"), "nan has no JSON form"),
        (Any, {"a": [{2: 3}]}, r"args\.value\.a\[0\]: the key 2 is an int"),
        (Any, {"a b": {1}}, r"args\.value\['a b'\]: a set"),
        (Any, "\ud800", "lone surrogate"),
        pytest.param(Any, 2**20_000, "digits", id="an int too long to print"),
        (float, float("inf"), "inf has no JSON form"),
        (Decimal, Decimal("NaN"), "NaN"),
        (datetime, datetime(2026, 1, 1), "naive"),  # noqa: DTZ001
        (date, datetime(2026, 1, 1, tzinfo=UTC), "a datetime given, date annotated"),
        (int, "7", "a str given, int annotated"),
        (bool, 1, "an int given, bool annotated"),
        (str, None, "None.* given, str annotated"),
        (list[int], (1, 2), "a tuple given, list annotated"),
        (tuple[int, str], (1,), "1 items given, 2 annotated"),
        (Literal["a", 1], True, "True is none of"),
        (list[Line], [Line(Decimal(1)), Line(1)], r"args\.value\[1\]\.price: an int given"),  # type: ignore[arg-type]  # wrong on purpose
        (dict[int, date], {3: 4}, r"args\.value\[3\]: an int given"),
        (Order, Order(UUID(int=1), [Line(Decimal("NaN"))]), r"args\.value\.lines\[0\]\.price"),
        (Options, {"since": date(2026, 1, 1), "x": 1}, "has no field 'x'"),
        (datetime | str, "2026-01-01T00:00:00+00:00", "would come back as a datetime"),
    ],
)
def test_what_would_not_come_back_is_refused_with_its_path(
    hint: Any, value: object, says: str
) -> None:
    """F16."""
    signature = taking(hint)

    with pytest.raises(UsageError, match=f"(?s)^job: .*{says}"):
        signature.encode(signature.bind((value,), {}))


def test_a_field_changed_behind_the_constructor_is_refused() -> None:
    order = Order(UUID(int=1), [])
    order.total = Decimal(5)
    signature = taking(Order)

    with pytest.raises(UsageError, match="would lose them"):
        signature.encode(signature.bind((order,), {}))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    signature = taking(Any)

    with pytest.raises(UsageError, match="contains itself"):
        signature.encode({"value": loop})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_every_plain_json_value_comes_back_equal_without_a_hint(value: object) -> None:
    """F16."""
    assert round_trip(taking(Any), value) == value


@given(
    st.dictionaries(
        st.integers(),
        st.tuples(st.decimals(allow_nan=False, allow_infinity=False), st.timedeltas(), st.uuids()),
    )
)
def test_typed_values_come_back_equal(value: dict[int, tuple[Decimal, timedelta, UUID]]) -> None:
    """F16."""
    assert round_trip(taking(dict[int, tuple[Decimal, timedelta, UUID]]), value) == value


@given(st.datetimes(timezones=st.timezones()))
def test_a_datetime_comes_back_as_the_same_instant(value: datetime) -> None:
    back = round_trip(taking(datetime), value)

    assert isinstance(back, datetime)
    assert back.astimezone(UTC) == value.astimezone(UTC)


@given(st.one_of(st.integers(), st.text(), st.dates(), st.uuids(), st.floats(), st.none()))
def test_a_union_gives_the_value_back_or_refuses_it(value: object) -> None:
    signature = taking(int | str | date | UUID | float | None)

    try:
        text = signature.encode({"value": value})
    except UsageError:
        return

    back = signature.decode(text)["value"]
    assert back == value
    assert type(back) is type(value)


def test_the_order_in_which_a_union_is_written_changes_nothing() -> None:
    text = '{"value":"2026-01-01"}'

    assert taking(str | date).decode(text) == taking(date | str).decode(text)


def test_the_text_is_canonical() -> None:
    def job(b: int, a: Any) -> None: ...

    signature = Signature.of(job)
    one = signature.encode(signature.bind((1, {"y": "ü", "x": 2}), {}))
    other = signature.encode(signature.bind((), {"a": {"x": 2, "y": "ü"}, "b": 1}))

    assert one == other == '{"a":{"x":2,"y":"ü"},"b":1}'


@pytest.mark.parametrize("character", ["x", "\U0001f4e7"])
def test_the_limit_counts_bytes(character: str) -> None:
    """F07, F17."""
    signature = taking(str)
    value = character * (1_000 // len(character.encode()))
    size = len(json.dumps({"value": "x" * 1_000}, separators=(",", ":")))

    assert signature.encode({"value": value}, limit=size)
    with pytest.raises(UsageError, match=r"1,012 bytes of JSON, the limit is 1,011"):
        signature.encode({"value": value}, limit=size - 1)


def test_the_default_limit_is_a_million_bytes() -> None:
    """F17."""
    signature = taking(str)
    around = len('{"value":""}')

    assert signature.encode({"value": "x" * (1_000_000 - around)})
    with pytest.raises(UsageError, match="1,000,001 bytes"):
        signature.encode({"value": "x" * (1_000_001 - around)})


def test_arguments_are_bound_as_the_call_would_bind_them() -> None:
    def job(a: int, /, b: int = 2, *rest: date, c: int, **more: timedelta) -> None: ...

    signature = Signature.of(job)
    bound = signature.bind((1, 3, date(2026, 1, 1)), {"c": 4, "d": timedelta(1)})
    args, kwargs = signature.spread(signature.decode(signature.encode(bound)))

    assert args == (1, 3, date(2026, 1, 1))
    assert kwargs == {"c": 4, "d": timedelta(1)}


def test_defaults_stay_with_the_code() -> None:
    def job(a: int, b: int = 2) -> None: ...

    assert Signature.of(job).bind((1,), {}) == {"a": 1}


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional"),
        ((1,), {"d": 2}, "unexpected keyword argument 'd'"),
    ],
)
def test_arguments_that_do_not_fit_name_the_job_and_the_parameter(
    args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    def resize(a: int, b: int = 2) -> None: ...

    with pytest.raises(UsageError, match=f"^resize: .*{says}.*" + re.escape("resize(a: 'int'")):
        Signature.of(resize).bind(args, kwargs)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"value":NaN}', "NaN is not JSON"),
        ("{}", r"args\.value is missing"),
        ('{"value":1,"gone":2}', r"args\.gone: no such parameter"),
        ('{"value":"x"}', r"args\.value: a str given, int annotated"),
        pytest.param("[" * 100_000, "not JSON", id="nested 100,000 deep"),
    ],
)
def test_a_stored_text_that_does_not_fit_the_code_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        taking(int).decode(text)


def test_types_come_from_the_hints_and_never_from_the_text() -> None:
    """G01."""
    text = '{"value":{"__class__":"os.system","args":["true"]}}'

    assert taking(Any).decode(text) == {"value": {"__class__": "os.system", "args": ["true"]}}


def annotated_by_class(run: Run, a: int) -> None: ...
def unannotated(run, a: int) -> None: ...  # type: ignore[no-untyped-def]  # on purpose
def annotated_by_name_only(r: AsyncRun, a: int) -> None: ...
def something_else(run: int, a: int) -> None: ...
def not_first(a: int, run: Run) -> None: ...
async def in_the_loop(run: Run) -> None: ...
def without() -> None: ...


@pytest.mark.parametrize(
    ("function", "takes_run"),
    [
        (annotated_by_class, True),
        (unannotated, True),
        (annotated_by_name_only, True),
        (something_else, False),
        (not_first, False),
        (without, False),
        (in_the_loop, True),
    ],
)
def test_the_run_is_recognised_by_its_annotation_or_its_bare_name(
    function: Callable[..., Any], takes_run: bool
) -> None:
    signature = Signature.of(function, run_types=(Run,))

    assert signature.takes_run is takes_run
    assert signature.is_async is asyncio.iscoroutinefunction(function)
    if takes_run and function is not in_the_loop:
        assert signature.bind((5,), {}) == {"a": 5}


def test_a_hint_that_cannot_be_resolved_is_named_when_it_is_needed() -> None:
    def job(fine: int, value: Missing) -> None: ...

    signature = Signature.of(job)

    with pytest.raises(UsageError, match=r"^job: args\.value: the hint 'Missing'.*at run time"):
        signature.check()


@pytest.mark.parametrize("hint", [Connection, Callable[[], None], Forgetful, complex])
def test_a_hint_without_a_json_form_is_refused(hint: Any) -> None:
    with pytest.raises(UsageError, match=r"args\.value"):
        taking(hint).check()


def test_a_result_is_written_by_the_return_hint() -> None:
    def job() -> list[UUID] | None: ...

    signature = Signature.of(job)
    text = signature.encode_result([UUID(int=1)])

    assert signature.decode_result(text) == [UUID(int=1)]
    assert signature.encode_result(None) is None
    assert signature.decode_result(None) is None
    with pytest.raises(UsageError, match=r"^job: result"):
        signature.encode_result({1})
