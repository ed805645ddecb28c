"""Attention temperature, and the logarithms it is made of, against mpmath at a hundred digits."""

from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.numbers.logarithms import natural
from tests.engine.answers import DTYPE_NAMES, Array, assert_rounded_once, only, refused
from tests.oracles.oracle_temperature import DEFAULTS, factor

TEMPERATURE = "encodings/temperature"
SCHEDULES = ("llama4", "ministral3", "inkling2", "beam", "log-n", "ssmax")
EDGES = [0, 1, 2, 2047, 2048, 8190, 8191, 8192, 16383, 16384, 127999, 128000, 131071, 2**24 + 1, 10**15, 2**53 - 1]


def test_logarithms_are_good_to_more_than_float64() -> None:
    random = np.random.default_rng(2)
    numbers = np.concatenate(
        [np.arange(1.0, 3000.0), np.exp2(random.uniform(0, 53, 2000)).round(), 2.0 ** np.arange(0, 54), [2.0**53 - 1]]
    )
    high, low = natural(numbers)
    with mpmath.workprec(400):
        for number, whole, rest in zip(numbers.tolist(), high.tolist(), low.tolist(), strict=True):
            exact = mpmath.log(mpf(number))
            assert abs(mpf(whole) + mpf(rest) - exact) <= abs(exact) * mpf(2) ** -66, number
    assert (high[0], low[0]) == (0, 0)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_factors_are_the_formulas(schedule: str, dtype: str) -> None:
    chosen: list[dict[str, Any]] = [{}]
    chosen += [{"floor_scale": length} for length in (3, 100) if schedule != "ssmax"]
    chosen += [{"attn_scale": scale} for scale in (0.0, 0.3 if schedule == "beam" else 1.7) if schedule != "log-n"]
    for knobs in chosen:
        got = only(TEMPERATURE, {"positions": np.array(EDGES)}, schedule=schedule, dtype=dtype, **knobs)
        exact = [[factor(schedule, position, **knobs)] for position in EDGES]
        assert_rounded_once(got, exact, dtype)
        lined = only(TEMPERATURE, length=40, offset=70, schedule=schedule, dtype=dtype, **knobs)
        assert_rounded_once(lined, [[factor(schedule, position, **knobs)] for position in range(70, 110)], dtype)


def test_steps_are_those_of_whole_numbers() -> None:
    llama = only(TEMPERATURE, positions="8190,8191,16382,16383", dtype="float64")[:, 0]
    assert llama == pytest.approx([1, 1 + 0.1 * np.log(2), 1 + 0.1 * np.log(2), 1 + 0.1 * np.log(3)], rel=1e-15)
    ministral = only(TEMPERATURE, positions="16383,16384", schedule="ministral3", dtype="float64")[:, 0]
    assert ministral == pytest.approx([1, 1 + 0.1 * np.log(2)], rel=1e-15)
    far = 8192 * 10**11
    below, at = only(TEMPERATURE, positions=(float(far - 2), float(far - 1)), dtype="float64")[:, 0]
    assert below < at


def test_a_power_of_the_trained_length_is_a_whole_number() -> None:
    got = only(TEMPERATURE, positions="0,2046,2047,4194303", schedule="log-n", dtype="float64")
    assert got.tolist() == [[1.0], [1.0], [1.0], [2.0]]


def test_the_first_query_of_ssmax_has_no_temperature() -> None:
    got = only(TEMPERATURE, length=3, schedule="ssmax", attn_scale=2, dtype="float64")
    assert got[0, 0] == 0
    assert got[:, 0] == pytest.approx([0, 2 * np.log(2), 2 * np.log(3)], rel=1e-15)


def test_shape_axes_and_facts() -> None:
    scheme = by_key("encodings", "temperature")
    batch = {"positions": np.array([[0, 1], [2, 3], [4, 5]])}
    tensor = scheme.tensors(scheme.params(), batch)["temperature"]
    assert (tensor.axes, tensor.shape) == (("batch", "position", "channel"), (3, 2, 1))
    for schedule in SCHEDULES:
        wanted = {name: value for name, value in DEFAULTS[schedule].items() if value is not None}
        assert scheme.facts(scheme.params(schedule=schedule), {}) == wanted
        stated = scheme.resolve(scheme.params(schedule=schedule), {})
        assert {name: getattr(stated, name) for name in DEFAULTS[schedule]} == DEFAULTS[schedule]
    assert scheme.facts(scheme.params(floor_scale=7), {}) == {"floor_scale": 7, "attn_scale": 0.1}


@pytest.mark.parametrize(
    ("parameters", "inputs", "named", "code"),
    [
        ({}, {}, "length", "missing"),
        ({"length": 2, "schedule": "log-n", "floor_scale": 1}, {}, "floor_scale", "out_of_range"),
        ({"length": 2, "schedule": "log-n", "attn_scale": 1}, {}, "attn_scale", "conflict"),
        ({"length": 2, "schedule": "ssmax", "floor_scale": 8}, {}, "floor_scale", "conflict"),
        ({"length": 2, "offset": -1}, {}, "offset", "out_of_range"),
        ({"length": 1, "offset": 2**53}, {}, "offset", "out_of_range"),
        ({"positions": "0,0.5"}, {}, "positions", "out_of_range"),
        ({"positions": "-1"}, {}, "positions", "out_of_range"),
        ({}, {"positions": np.array([2.0**53])}, "/positions", "out_of_range"),
    ],
)
def test_refusals_name_the_parameter(
    parameters: dict[str, object], inputs: dict[str, Array], named: str, code: str
) -> None:
    fault = refused(TEMPERATURE, inputs, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"attn_scale": 17.0}, "attn_scale"),
        ({"attn_scale": 16.0, "floor_scale": 1, "offset": 9, "dtype": "float16"}, "dtype"),
    ],
)
def test_beam_refuses_what_it_cannot_hold(parameters: dict[str, Any], named: str) -> None:
    fault = refused(TEMPERATURE, **{"schedule": "beam", "length": 2, **parameters})
    assert (fault.parameter, fault.code) == (named, "out_of_range")
