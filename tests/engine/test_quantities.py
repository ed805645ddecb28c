"""Text becomes a number only if it is one, and the refusal says what would do."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from service.engine import quantities
from service.engine.quantities import LARGEST_EXACT_INTEGER, LONGEST_LIST

INTEGER = TypeAdapter(quantities.Integer)
REAL = TypeAdapter(quantities.Real)
POSITIONS = TypeAdapter(quantities.Positions)
ARABIC_FIVE, FULLWIDTH_FIVE, SUPERSCRIPT_TWO = "\u0665", "\uff15", "\u00b2"


def message(adapter: TypeAdapter[Any], value: object) -> str:
    """The one complaint about a value."""
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(value)
    (error,) = caught.value.errors()
    return error["msg"]


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("-0", 0), ("007", 7), ("-12", -12), (str(2**53), 2**53), ("9" * 4000, 10**4000 - 1)]
)
def test_integers(text: str, number: int) -> None:
    assert INTEGER.validate_python(text) == number


NO_NUMBERS = ["", " ", "5 ", " 5", "\t5", "5\n", "+3", "1_0", "--1", "-", "0x10", "five", ARABIC_FIVE, FULLWIDTH_FIVE]
NO_NUMBERS += [
    SUPERSCRIPT_TWO,
    "1,000",
    "true",
    "None",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "Infinity",
    "\x005",
    "\u22125",
    "−5",
]


@pytest.mark.parametrize("text", [*NO_NUMBERS, "5.0", "1e3", "1E3", ".5", "9" * 5000])
def test_what_is_no_integer(text: str) -> None:
    assert message(INTEGER, text) == "an integer is needed: digits with an optional minus, such as 128"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5.0),
        ("-5.25", -5.25),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e4", 1e4),
        ("1E4", 1e4),
        ("1e+4", 1e4),
        ("1.5e-3", 1.5e-3),
        ("0.1", 0.1),
        ("1e-400", 0.0),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("9007199254740993", 9007199254740992.0),
    ],
)
def test_real_numbers_are_the_nearest_float64(text: str, number: float) -> None:
    assert REAL.validate_python(text) == number


def test_minus_zero_is_zero() -> None:
    assert str(REAL.validate_python("-0.0")) == "0.0"
    assert str(POSITIONS.validate_python("-0")[0]) == "0.0"


@pytest.mark.parametrize("text", [*NO_NUMBERS, ".", "e5", "1e", "1e5.0", "1.2.3", "1e1_0", "0x1p3"])
def test_what_is_no_real_number(text: str) -> None:
    assert message(REAL, text) == "a finite decimal number is needed, such as 10000, 0.5 or 1e4"


@pytest.mark.parametrize("text", ["1e309", "-1e309", "9" * 400, "1e999999999999"])
def test_what_float64_does_not_hold(text: str) -> None:
    assert "too large for float64" in message(REAL, text)


@pytest.mark.parametrize("text", ["1e 4", "-1.5E 10"])
def test_a_plus_that_became_a_space(text: str) -> None:
    assert message(REAL, text) == "a + in an address means a space: write the exponent as 1e4 or 1e%2B4"


@pytest.mark.parametrize("adapter", [INTEGER, REAL])
def test_truth_values_are_no_numbers(adapter: TypeAdapter[Any]) -> None:
    assert "not a truth value" in message(adapter, True)


def test_numbers_from_code_pass() -> None:
    assert INTEGER.validate_python(7) == 7
    assert REAL.validate_python(7) == 7.0
    assert POSITIONS.validate_python((1, 2.5)) == (1.0, 2.5)


def test_lists() -> None:
    assert POSITIONS.validate_python("0,-3,0.5,1e+2") == (0.0, -3.0, 0.5, 100.0)
    assert len(POSITIONS.validate_python(",".join(["1"] * LONGEST_LIST))) == LONGEST_LIST
    assert POSITIONS.validate_python(f"{LARGEST_EXACT_INTEGER},-{LARGEST_EXACT_INTEGER}") == (2.0**53, -(2.0**53))


@pytest.mark.parametrize("text", ["", ",", "1,", ",1", "1,,2"])
def test_lists_with_holes(text: str) -> None:
    assert message(POSITIONS, text) == "a comma-separated list of positions is needed, such as 0,5,7"


@pytest.mark.parametrize("entries", [LONGEST_LIST + 1, 100_000])
def test_lists_that_are_too_long(entries: int) -> None:
    assert message(POSITIONS, ",".join(["1"] * entries)) == (
        "a list in the address holds at most 512 entries: send more in the body of a POST"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0, 5", "entry 1: a finite decimal number is needed, such as 10000, 0.5 or 1e4"),
        ("0,1,nan", "entry 2: a finite decimal number is needed, such as 10000, 0.5 or 1e4"),
        ("1e309", "entry 0: the number is too large for float64 (about 1.8e308)"),
        (
            "9007199254740993",
            "entry 0: positions lie between -2^53 and 2^53, where every integer is a float64",
        ),
        (
            "0,-9007199254740993",
            "entry 1: positions lie between -2^53 and 2^53, where every integer is a float64",
        ),
    ],
)
def test_an_entry_that_is_wrong_is_named(text: str, complaint: str) -> None:
    assert message(POSITIONS, text) == complaint


@pytest.mark.parametrize(
    ("kind", "too_small", "too_large"),
    [
        ("Length", 0, 2**53 + 1),
        ("Dim", 0, 65_537),
        ("HeadDim", 1, 65_537),
        ("RotaryDim", 1, 65_537),
        ("PartialRotaryFactor", 0, 1.5),
        ("Base", 0, 1.1e100),
        ("Base", -1, 1e300),
        ("Offset", -(2**53) - 1, 2**53 + 1),
        ("Heads", 0, 65_537),
        ("Queries", 0, 2**53 + 1),
        ("Keys", 0, 2**53 + 1),
    ],
)
def test_bounds(kind: str, too_small: float, too_large: float) -> None:
    adapter = TypeAdapter(getattr(quantities, kind))
    assert "greater than" in message(adapter, str(too_small))
    assert "less than or equal" in message(adapter, str(too_large))


@pytest.mark.parametrize(
    ("kind", "choices"),
    [
        ("DType", ["float16", "bfloat16", "float32", "float64"]),
        ("Layout", ["interleaved", "sin-cos", "cos-sin"]),
        ("OddWidth", ["extra-sine", "zero-column", "truncate", "refuse"]),
        ("Pairing", ["half", "interleaved"]),
        ("Columns", ["full", "half"]),
        ("Arithmetic", ["exact", "float32", "ggml"]),
        ("BatchAxis", ["none", "first", "second"]),
    ],
)
def test_conventions_are_named_choices(kind: str, choices: list[str]) -> None:
    adapter = TypeAdapter(getattr(quantities, kind))
    assert [adapter.validate_python(choice) for choice in choices] == choices
    for wrong in (choices[0].upper(), choices[0] + " ", "true", ""):
        assert "Input should be" in message(adapter, wrong)


@pytest.mark.parametrize("value", [5, 1.5, {"0": 1}])
def test_a_list_is_text_or_a_list(value: object) -> None:
    assert message(POSITIONS, value) == "Input should be a valid tuple"
