"""Arguments and results as JSON, by annotations."""

import enum
import math
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import pydantic
import pytest

from jobyard.api.arguments import Arguments, Results, hints_of
from jobyard.contracts.errors import InvalidArgs, InvalidResult


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    at: datetime


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="theName")
    size: pydantic.PositiveInt


@dataclass
class Holder:
    model: Model


class Pair(NamedTuple):
    left: int
    right: str


class Typed(TypedDict):
    key: int


@pydantic.dataclasses.dataclass
class Checked:
    percent: pydantic.NonNegativeInt


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
VALUES: list[tuple[Any, Any]] = [
    (int, 2**70),
    (int, -(2**63) - 1),
    (float, 1.5),
    (str, "grüße \U0001f600 \\u0000"),
    (bytes, b"\x00\xff"),
    (datetime, MOMENT),
    (timedelta, timedelta(seconds=90)),
    (UUID, UUID("01a22dcd-a6b8-767c-809c-7dd958532c65")),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (Point, Point(1, MOMENT)),
    (list[Point], [Point(1, MOMENT)]),
    (dict[str, Point | None], {"a": None, "b": Point(2, MOMENT)}),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (Pair, Pair(1, "b")),
    (Typed, {"key": 1}),
    (Literal["a", "b"], "b"),
    (Model, Model(theName="n", size=3)),
    (list[Model], [Model(theName="n", size=3)]),
    (Model | None, None),
    (Holder, Holder(Model(theName="n", size=3))),
    (Checked, Checked(3)),
    (Path, Path("/tmp/x")),
    (int | Path, Path("a/b")),
    (object, {"any": [1, None, 2**64, "x"]}),
    (Any, [1.5, {"a": True}]),
]


def of(function: Callable[..., Any]) -> Arguments:
    return Arguments("kind", function, hints_of(function))


def taking(annotation: Any) -> Arguments:
    def function(value: Any) -> None: ...

    return Arguments("kind", function, {"value": annotation})


@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=lambda v: str(v)[:40])
def test_values_come_back_as_they_went(annotation: Any, value: Any) -> None:
    arguments = taking(annotation)
    raw = arguments.encode(arguments.bind((value,), {}))
    found = arguments.decode(raw)
    assert found == {"value": value}
    assert type(found["value"]) is type(value)
    results = Results("kind", {"return": annotation})
    assert results.decode(results.encode(value)) == value


def test_defaults_are_left_to_the_function() -> None:
    def function(path: str, *, minutes: float = 3, model: Model | None = None) -> None: ...

    arguments = of(function)
    assert arguments.encode(arguments.bind(("a",), {})) == b'{"path":"a"}'
    assert arguments.decode(b'{"path":"a"}') == {"path": "a"}
    assert arguments.decode(b'{"path":"a","minutes":2,"model":{"theName":"n","size":1}}') == {
        "path": "a",
        "minutes": 2.0,
        "model": Model(theName="n", size=1),
    }


def test_unannotated_arguments_take_any_json() -> None:
    def function(a, b=None):  # type: ignore[no-untyped-def]  # that is what is tested
        return a, b  # pyright: ignore[reportUnknownVariableType] - that is what is tested

    arguments = of(function)  # pyright: ignore[reportUnknownArgumentType] - that is what is tested
    assert arguments.decode(arguments.encode({"a": {"x": [1, "y"]}})) == {"a": {"x": [1, "y"]}}


def test_keyword_arguments_of_any_name_are_read_by_their_annotation() -> None:
    def function(a: int, **rest: datetime) -> None: ...

    arguments = of(function)
    raw = arguments.encode(arguments.bind((1,), {"b": MOMENT}))
    assert arguments.decode(raw) == {"a": 1, "b": MOMENT}
    with pytest.raises(InvalidArgs, match="argument b"):
        arguments.decode(b'{"a":1,"b":"x"}')


def test_wrong_calls_are_type_errors_of_the_handler() -> None:
    def function(path: str, minutes: float) -> None: ...

    arguments = of(function)
    with pytest.raises(TypeError, match=r"kind\(\): missing a required argument: 'minutes'"):
        arguments.bind(("a",), {})
    with pytest.raises(TypeError, match=r"kind\(\): got an unexpected keyword argument 'x'"):
        arguments.bind(("a", 1), {"x": 1})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1.0, math.nan], {"a": {"b": math.inf}}])
def test_nan_and_infinity_are_refused(value: Any) -> None:
    for annotation in (Any, float if isinstance(value, float) else Any):
        with pytest.raises(InvalidArgs, match=r"kind: argument value: .*NaN or infinity"):
            taking(annotation).encode({"value": value})
    with pytest.raises(InvalidResult, match="NaN or infinity"):
        Results("kind", {}).encode(value)


def test_none_is_no_nan() -> None:
    assert taking(Any).encode({"value": [None, 1.5]}) == b'{"value":[null,1.5]}'


def test_a_pydantic_float_may_not_be_nan_either() -> None:
    class Weight(pydantic.BaseModel):
        kilos: float

    with pytest.raises(InvalidArgs, match="argument value"):
        taking(Weight).encode({"value": Weight(kilos=math.nan)})


@pytest.mark.parametrize("value", [object(), lambda: 1, "\ud800", {"a": "\ud800"}])
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgs, match="kind: argument value"):
        taking(Any).encode({"value": value})
    with pytest.raises(InvalidResult):
        Results("kind", {}).encode(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidArgs, match="holds itself"):
        taking(Any).encode({"value": value})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int, "1"), (int, 1.5), (str, 1), (datetime, "yesterday"), (Point, {"x": 1}), (list[int], [1, "2"]), (Colour, "blue"), (Model, 5)],
    ids=str,
)
def test_a_wrong_value_is_found_before_it_is_sent(annotation: Any, value: Any) -> None:
    with pytest.raises(InvalidArgs, match="kind: argument value"):
        taking(annotation).encode({"value": value})


def test_errors_name_argument_rule_and_value() -> None:
    def function(path: str, sizes: list[int]) -> None: ...

    with pytest.raises(InvalidArgs, match=r"""kind: argument sizes: Expected `int`, got `str` at sizes\[1\]: '\[1,"x"\]'""") as found:
        of(function).decode(b'{"path":"a","sizes":[1,"x"]}')
    assert found.value.field == "sizes"
    with pytest.raises(InvalidArgs, match="missing required field `path`"):
        of(function).decode(b'{"sizes":[]}')
    with pytest.raises(InvalidArgs, match="unknown field `z`"):
        of(function).decode(b'{"path":"a","sizes":[],"z":1}')
    with pytest.raises(InvalidArgs, match="kind: "):
        of(function).decode(b"[]")
    with pytest.raises(InvalidArgs, match="kind: "):
        of(function).decode(b"\xff")
    with pytest.raises(InvalidArgs, match=r"kind: argument value: .*greater than 0 at size, got '-1'"):
        taking(Model).decode(b'{"value":{"theName":"n","size":-1}}')


class Opaque:
    """Nothing that JSON could become."""


@pytest.mark.parametrize("annotation", [Opaque, Callable[[], int], list[Opaque], Opaque | None, type], ids=str)
def test_annotations_that_json_cannot_feed_are_errors(annotation: Any) -> None:
    with pytest.raises(TypeError, match="kind: argument value can't be read from JSON"):
        taking(annotation)
    with pytest.raises(TypeError, match="kind: its result can't be JSON"):
        Results("kind", {"return": annotation})


def test_signatures_that_json_cannot_feed_are_errors() -> None:
    def positional(a: int, /) -> None: ...
    def many(*a: int) -> None: ...
    def odd(**a: Opaque) -> None: ...

    for function, word in ((positional, "positional-only"), (many, r"\*a"), (odd, r"\*\*a")):
        with pytest.raises(TypeError, match=word):
            of(function)


def test_positional_only_with_a_default_keeps_it() -> None:
    def function(a: int = 1, /, b: int = 2) -> None: ...

    arguments = of(function)
    assert arguments.decode(b'{"b":3}') == {"b": 3}
    with pytest.raises(TypeError, match="positional-only"):
        arguments.bind((5,), {})


def test_results_are_bounded() -> None:
    results = Results("kind", {"return": str})
    assert results.encode("abc", 5) == b'"abc"'
    with pytest.raises(InvalidResult, match="6 bytes"):
        results.encode("abcd", 5)
    with pytest.raises(InvalidResult, match="NUL"):
        results.encode("\x00")


def test_a_kept_result_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(InvalidResult, match=r"kind: the result .*does not fit"):
        Results("kind", {"return": int}).decode(b'"x"')


def test_plain_arguments_are_cheap() -> None:
    def function(x: int, y: str) -> None: ...

    arguments = of(function)
    raw = b'{"x":1,"y":"abc"}'
    best = min(timeit.repeat(lambda: arguments.decode(raw), number=2000, repeat=7)) / 2000
    assert best < 15e-6, f"{best * 1e6:.1f} µs"  # 0.7 µs on an idle machine; the promise is 3
