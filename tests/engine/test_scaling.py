"""RoPE's scaling as real numbers: every type against its formula at a hundred digits, laws, facts and refusals."""

from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.rotation.rotary import Rotary, resolved
from service.engine.rotation.scaling_exact import ramp_ends
from tests.engine.answers import DTYPE_NAMES, Array, answer, assert_rounded_once, close, only, refused
from tests.oracles import oracle_scaling as oracle
from tests.oracles.exact import PRECISION_BITS, real, ulps_apart

ROPE, TURN = "encodings/rope", "apply/rope"
POSITIONS = (0.0, 1.0, -3.0, 0.5, 4097.0, 131071.0)

SHORT = (1.0, 1.05, 1.1, 1.25, 1.3, 1.75, 2.0, 2.5)
LONG = (1.0, 1.5, 2.0, 3.0, 8.5, 16.0, 31.25, 64.0)
YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
LONGROPE: dict[str, Any] = {
    "rope_type": "longrope",
    "short_factor": SHORT,
    "long_factor": LONG,
    "original_max_position_embeddings": 4096,
    "max_position_embeddings": 131072,
}
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "factor": 8,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 8192,
}
DYNAMIC: dict[str, Any] = {"rope_type": "dynamic", "factor": 2.5, "max_position_embeddings": 2048}
PARTS: dict[str, Any] = {**YARN, "rope_type": "ntk_by_parts"}

TYPES: dict[str, tuple[dict[str, Any], oracle.Rule]] = {
    "default": ({}, oracle.plain),
    "linear": ({"rope_type": "linear", "factor": 8.3}, oracle.linear(8.3)),
    "linear by position": ({"rope_type": "linear", "factor": 3, "linear_scaling": "position"}, oracle.linear(3)),
    "dynamic": ({**DYNAMIC, "seq_len": 5000}, oracle.dynamic(2.5, 2048, 5000)),
    "dynamic uniform": ({"rope_type": "dynamic", "factor": 4, "dynamic_rule": "uniform"}, oracle.uniform(4)),
    "ntk": ({"rope_type": "ntk", "factor": 4}, oracle.ntk_fixed(4)),
    "ntk mixed": ({"rope_type": "ntk", "factor": 4, "mixed_b": 0.6}, oracle.ntk_mixed(4, 0.6)),
    "ntk_aware": ({"rope_type": "ntk_aware", "factor": 4}, oracle.rebased(4)),
    "ntk_alpha": ({"rope_type": "ntk_alpha", "alpha": 1000}, oracle.rebased(1000)),
    "ntk_by_parts": (PARTS, oracle.by_turns(40, 4096, 1, 32)),
    "ntk_by_parts along channels": ({**PARTS, "ramp": "channels"}, oracle.yarn(40, 4096)),
    "yarn": (YARN, oracle.yarn(40, 4096)),
    "yarn, betas": ({**YARN, "beta_fast": 64, "beta_slow": 0.5}, oracle.yarn(40, 4096, 64, 0.5)),
    "yarn, real ends": ({**YARN, "truncate": False}, oracle.yarn(40, 4096, truncate=False)),
    "yarn, one end": (
        {**YARN, "beta_fast": 1, "beta_slow": 1, "truncate": False},
        oracle.yarn(40, 4096, 1, 1, truncate=False),
    ),
    "yarn along rotations": ({**YARN, "ramp": "rotations"}, oracle.by_turns(40, 4096, 1, 32)),
    "longrope, short": ({**LONGROPE, "seq_len": 4096}, oracle.divided(SHORT)),
    "longrope, long": ({**LONGROPE, "seq_len": 4097}, oracle.divided(LONG)),
    "longrope, always long": ({**LONGROPE, "longrope_list": "long"}, oracle.divided(LONG)),
    "longrope, always short": ({**LONGROPE, "longrope_list": "short", "seq_len": 9999}, oracle.divided(SHORT)),
    "llama3": (LLAMA3, oracle.by_turns(8, 8192, 1, 4)),
    "llama3 without a blend": ({**LLAMA3, "high_freq_factor": 1}, oracle.by_turns(8, 8192, 1, 1)),
    "proportional": ({"rope_type": "proportional", "partial_rotary_factor": 0.3}, oracle.proportional(0.3)),
    "proportional, scaled": ({"rope_type": "proportional", "factor": 8}, oracle.proportional(1, 8)),
    "divisors": ({"rope_type": "divisors", "divisors": LONG}, oracle.divided(LONG)),
}
Types = pytest.mark.parametrize("name", TYPES)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@Types
def test_frequencies_are_the_real_numbers_rounded_once(name: str, dtype: str) -> None:
    parameters, rule = TYPES[name]
    for base in (10_000.0, 500_000.0, 100.0):
        got = only(ROPE, dim=16, base=base, dtype=dtype, output="frequencies", **parameters)
        assert_rounded_once(got[None], [oracle.frequencies(rule, 16, base)], dtype)


ATTENTION = {
    "yarn": oracle.magnitude(40),
    "yarn, betas": oracle.magnitude(40),
    "yarn, real ends": oracle.magnitude(40),
    "yarn, one end": oracle.magnitude(40),
    "yarn along rotations": oracle.magnitude(40),
    **dict.fromkeys(
        ("longrope, short", "longrope, long", "longrope, always long", "longrope, always short"),
        oracle.longrope_attention(32, 4096),
    ),
}


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@Types
def test_tables_are_the_attention_factor_times_the_real_waves_rounded_once(name: str, dtype: str) -> None:
    parameters, rule = TYPES[name]
    factor = ATTENTION.get(name, mpf(1))
    exact = oracle.frequencies(rule, 16, 10_000)
    got = answer(ROPE, dim=16, positions=POSITIONS, dtype=dtype, columns="half", **parameters)
    with mpmath.workprec(PRECISION_BITS):
        for table, wave in (("cos", mpmath.cos), ("sin", mpmath.sin)):
            rows = [[factor * wave(real(p) * w) for w in exact] for p in POSITIONS]
            assert_rounded_once(got[table], rows, dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_amplified_tables_of_consecutive_positions(dtype: str) -> None:
    # A range is computed by sums of angles: the attention factor must come in once, and be in every bound.
    got = answer(ROPE, dim=16, offset=131_000, length=150, dtype=dtype, columns="half", **YARN)
    exact = oracle.frequencies(oracle.yarn(40, 4096), 16, 10_000)
    with mpmath.workprec(PRECISION_BITS):
        for table, wave in (("cos", mpmath.cos), ("sin", mpmath.sin)):
            rows = [[oracle.magnitude(40) * wave(p * w) for w in exact] for p in range(131_000, 131_150)]
            assert_rounded_once(got[table], rows, dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("factor", [1.5, 2.0, 5.0, 1024.0])
def test_loud_tables_are_rounded_once_on_every_way(dtype: str, factor: float) -> None:
    # Whole positions take a faster way than scattered ones, unless something may become subnormal.
    for frequencies in ((1.0, 0.01, 0.0), (1.0, 1e-18, 1e-30)):
        own: dict[str, Any] = {"rope_type": "frequencies", "frequencies": frequencies, "attention_factor": factor}
        wanted: dict[str, Any] = {"dim": 6, "columns": "half", "dtype": dtype, **own}
        lined = answer(ROPE, offset=-3, length=70, **wanted)
        listed = answer(ROPE, positions=tuple(range(-3, 67)), **wanted)
        with mpmath.workprec(PRECISION_BITS):
            for table, wave in (("cos", mpmath.cos), ("sin", mpmath.sin)):
                rows = [[factor * wave(p * real(w)) for w in frequencies] for p in range(-3, 67)]
                assert_rounded_once(lined[table], rows, dtype)
                assert lined[table].tobytes() == listed[table].tobytes()


def test_the_callers_own_frequencies_are_taken_as_they_are() -> None:
    own: dict[str, Any] = {"rope_type": "frequencies", "frequencies": (0.5, 0.0, 1e-3)}
    np.testing.assert_array_equal(only(ROPE, dim=6, output="frequencies", dtype="float64", **own), [0.5, 0.0, 1e-3])
    got = answer(ROPE, dim=6, positions=(-7.0, 3.0), columns="half", **own)
    np.testing.assert_array_equal(got["cos"][:, 1], [1, 1])
    assert not np.signbit(got["sin"][:, 1]).any()
    angles = only(ROPE, dim=6, positions=(4,), output="angles", dtype="float64", **own)
    np.testing.assert_array_equal(angles, [[2.0, 0.0, 0.004]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_divisors_are_plain_over_scaled_frequencies(dtype: str) -> None:
    got = only(ROPE, dim=128, base=500_000, output="divisors", dtype=dtype, **LLAMA3)
    with mpmath.workprec(PRECISION_BITS):
        plain, scaled = (
            oracle.frequencies(rule, 128, 500_000) for rule in (oracle.plain, oracle.by_turns(8, 8192, 1, 4))
        )
        exact = [p / s for p, s in zip(plain, scaled, strict=True)]
    assert_rounded_once(got[None], [exact], dtype)
    again = {"rope_type": "divisors", "divisors": tuple(only(ROPE, dim=128, base=500_000, output="divisors", **LLAMA3))}
    frequencies = {"dim": 128, "base": 500_000, "output": "frequencies"}
    assert ulps_apart(only(ROPE, **frequencies, **again), only(ROPE, **frequencies, **LLAMA3)).max() <= 1


def facts(dim: int = 64, **parameters: object) -> dict[str, Any]:
    scheme = by_key("encodings", "rope")
    return dict(scheme.facts(scheme.params(dim=dim, **parameters), {}))


def notes(**parameters: object) -> list[str]:
    scheme = by_key("encodings", "rope")
    return scheme.notes(scheme.params(dim=16, length=1, **parameters), {})


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, 1),
        ({"mscale": 1, "mscale_all_dim": 1}, 1),
        ({"mscale": 1.2, "mscale_all_dim": 0.4}, float(oracle.magnitude(40, 1.2) / oracle.magnitude(40, 0.4))),
        ({"attention_factor": 1.25}, 1.25),
        ({"attention_factor": 0}, 0),
        ({"attention_factor": 1.25, "mscale": 2, "mscale_all_dim": 1}, 1.25),
        *(({name: 0.5}, float(oracle.magnitude(40))) for name in ("mscale", "mscale_all_dim")),
        ({"mscale": 0, "mscale_all_dim": 1}, float(oracle.magnitude(40))),
        ({"mscale": 0.5, "mscale_rule": "each"}, float(oracle.magnitude(40, 0.5))),
        ({"mscale_all_dim": 0.5, "mscale_rule": "each"}, float(oracle.magnitude(40) / oracle.magnitude(40, 0.5))),
        ({"mscale": 0, "mscale_rule": "each"}, 1),
    ],
)
def test_attention_factor_of_yarn(parameters: dict[str, Any], expected: float) -> None:
    wanted = float(oracle.magnitude(40)) if not parameters else expected
    assert facts(**YARN, **parameters)["attention_factor"] == pytest.approx(wanted, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, float(oracle.longrope_attention(32, 4096))),
        ({"factor": 2}, float(oracle.longrope_attention(2, 4096))),
        ({"factor": 1}, 1),
        ({"attention_factor": 1.3, "factor": 2}, 1.3),
        ({"attention_factor": 1.3, "longrope_attention": "ratio"}, float(oracle.longrope_attention(32, 4096))),
        ({"factor": 2, "longrope_attention": "own-or-ratio"}, float(oracle.longrope_attention(32, 4096))),
        ({"attention_factor": 1.3, "longrope_attention": "own-or-ratio"}, 1.3),
        ({"short_mscale": 1.1, "long_mscale": 1.2}, 1.1),
        ({"short_mscale": 1.1, "long_mscale": 1.2, "longrope_list": "long"}, 1.2),
        ({"short_mscale": 1.1, "long_mscale": 1.2, "seq_len": 4097}, 1.2),
        # PhiMoE in transformers 5.24: the short list, and the factor of the long one.
        ({"short_mscale": 1.1, "long_mscale": 1.2, "seq_len": 4097, "longrope_list": "short"}, 1.2),
    ],
)
def test_attention_factor_of_longrope(parameters: dict[str, Any], expected: float) -> None:
    given = {**LONGROPE, **parameters}
    assert facts(16, **given)["attention_factor"] == pytest.approx(expected, rel=1e-15, abs=0)


def test_own_attention_factors_need_no_other() -> None:
    given = {name: value for name, value in LONGROPE.items() if name != "max_position_embeddings"}
    assert facts(16, **given, attention_factor=1.5)["attention_factor"] == 1.5
    assert facts(16, **given, short_mscale=1.1, long_mscale=1.2)["attention_factor"] == 1.1
    assert refused(ROPE, dim=16, length=1, **given, short_mscale=1.1).parameter == "factor"


def test_facts_say_what_was_used() -> None:
    assert facts(**YARN, mscale=1, mscale_all_dim=1) == {
        "rotary_dim": 64,
        "attention_factor": 1.0,
        "ramp_low": 10.0,
        "ramp_high": 23.0,
        "softmax_factor": float(oracle.magnitude(40) ** 2),
    }
    assert facts(16, **LONGROPE)["list_used"] == "short"
    assert facts(16, **LONGROPE, seq_len=4097)["list_used"] == "long"
    proportional = facts(512, rope_type="proportional", partial_rotary_factor=0.25)
    assert (proportional["rotary_dim"], proportional["turning_pairs"]) == (512, 64)
    assert facts(rope_type="ntk", factor=4)["effective_base"] == 40_000
    assert "effective_base" not in facts(rope_type="ntk", factor=4, mixed_b=0.5)
    assert facts(rope_type="ntk_alpha", alpha=1000)["effective_base"] == pytest.approx(
        1e4 * 1000 ** (64 / 62), rel=1e-14
    )
    assert "effective_base" not in facts(rope_type="dynamic", factor=4, dynamic_rule="uniform")
    ends = facts(**YARN, truncate=False)
    with mpmath.workprec(PRECISION_BITS):
        low, high = oracle.ramp_ends(64, mpf(10_000), 4096, 32, 1, truncate=False)
    assert (ends["ramp_low"], ends["ramp_high"]) == (float(low), float(high))


def test_notes_name_what_has_no_effect_and_a_factor_that_the_lengths_contradict() -> None:
    assert notes(rope_type="linear", factor=2) == []
    assert notes(rope_type="linear", factor=2, beta_fast=32) == ["beta_fast has no effect with rope_type=linear"]
    assert notes(**YARN, max_position_embeddings=163_840) == []
    (note,) = notes(**YARN, max_position_embeddings=8192)
    assert note.startswith("factor is 40, and max_position_embeddings / original_max_position_embeddings is 2")
    assert notes(rope_type="frequencies", frequencies=(1,) * 8, base=5) == [
        "base has no effect with rope_type=frequencies"
    ]
    assert notes(rope_type="frequencies", frequencies=(1,) * 8) == []
    ggml = notes(**YARN, arithmetic="ggml", truncate=False)
    assert any("whatever truncate says" in note for note in ggml)


# Laws


ONES = (1.0,) * 8


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "linear", "factor": 1},
        {"rope_type": "linear", "factor": 1, "linear_scaling": "position"},
        {**DYNAMIC, "seq_len": 2048},
        {**DYNAMIC, "seq_len": 3},
        DYNAMIC,
        {"rope_type": "dynamic", "factor": 1, "dynamic_rule": "uniform"},
        {"rope_type": "ntk", "factor": 1},
        {"rope_type": "ntk", "factor": 1, "mixed_b": 0.5},
        {"rope_type": "ntk_aware", "factor": 1},
        {"rope_type": "ntk_alpha", "alpha": 1},
        {**YARN, "factor": 1},
        {**LLAMA3, "factor": 1},
        {**LONGROPE, "short_factor": ONES, "long_factor": ONES, "factor": 1},
        {"rope_type": "proportional"},
        {"rope_type": "divisors", "divisors": ONES},
    ],
)
def test_factors_of_one_are_the_default(parameters: dict[str, Any], arithmetic: str) -> None:
    wanted = {"dim": 16, "length": 9, "offset": 4090, "arithmetic": arithmetic}
    plain, scaled = answer(ROPE, **wanted), answer(ROPE, **wanted, **parameters)
    blended = arithmetic == "float32" and parameters.get("rope_type") in ("yarn", "llama3")
    for name, table in plain.items():
        # A blend of two equal numbers is off by an ulp of the frequency in float32.
        np.testing.assert_allclose(scaled[name], table, rtol=0, atol=1e-3 if blended else 0)


@pytest.mark.parametrize("linear_scaling", ["frequency", "position"])
def test_linear_is_the_default_at_a_fraction_of_the_position(linear_scaling: str) -> None:
    scaled = answer(ROPE, dim=16, positions=(8, 20), rope_type="linear", factor=4, linear_scaling=linear_scaling)
    plain = answer(ROPE, dim=16, positions=(2, 5))
    np.testing.assert_array_equal(scaled["cos"], plain["cos"])
    np.testing.assert_array_equal(scaled["sin"], plain["sin"])


def test_float32_positions_are_divided_where_the_frequencies_are_not() -> None:
    far = {"dim": 96, "positions": (131_071.0, 9973.0), "rope_type": "linear", "factor": 3, "arithmetic": "float32"}
    by_position, by_frequency = (
        only(ROPE, output="angles", linear_scaling=scaling, **far) for scaling in ("position", "frequency")
    )
    inv_freq = only(ROPE, dim=96, output="frequencies", arithmetic="float32")
    steps = (np.array([131_071, 9973], np.float32) / np.float32(3))[:, None] * inv_freq
    np.testing.assert_array_equal(by_position, steps)
    assert (by_position != by_frequency).any()
    assert ulps_apart(by_position, by_frequency).max() <= 3


def test_an_ntk_aware_base_keeps_the_first_frequency_and_divides_the_last() -> None:
    wanted = {"dim": 64, "output": "frequencies", "dtype": "float64"}
    plain, scaled = only(ROPE, **wanted), only(ROPE, **wanted, rope_type="ntk_aware", factor=8)
    assert scaled[0] == plain[0] == 1
    assert ulps_apart(scaled[-1:], plain[-1:] / 8, "float64").max() <= 1


def test_ntk_by_parts_is_llama3_with_the_betas() -> None:
    wanted = {"dim": 64, "base": 500_000, "output": "frequencies"}
    parts = {**LLAMA3, "rope_type": "ntk_by_parts", "beta_slow": 1, "beta_fast": 4}
    for arithmetic in ("exact", "float32"):
        a, b = (only(ROPE, **wanted, **given, arithmetic=arithmetic) for given in (parts, LLAMA3))
        np.testing.assert_array_equal(a, b)
    assert facts(64, **PARTS)["attention_factor"] == 1
    assert facts(64, **PARTS, attention_factor=1.5)["attention_factor"] == 1.5


def test_fast_pairs_stay_and_slow_ones_are_divided() -> None:
    # Counting turns, not pairs: an inverted ramp would divide the fast ones.
    plain = only(ROPE, dim=128, output="frequencies", dtype="float64")
    scaled = only(ROPE, dim=128, output="frequencies", dtype="float64", **YARN)
    turns = 4096 * plain / (2 * np.pi)
    shift = plain[1] / plain[2]  # floor and ceiling move the ends by up to one pair
    np.testing.assert_allclose(scaled[turns > 32 * shift], plain[turns > 32 * shift], rtol=1e-15)
    np.testing.assert_allclose(scaled[turns < 1 / shift], plain[turns < 1 / shift] / 40, rtol=1e-15)
    inverted = only(ROPE, dim=128, output="frequencies", dtype="float64", ramp="inverted", **YARN)
    np.testing.assert_allclose(inverted[turns > 32 * shift], plain[turns > 32 * shift] / 40, rtol=1e-15)
    np.testing.assert_allclose(inverted[turns < 1 / shift], plain[turns < 1 / shift], rtol=1e-15)


@pytest.mark.parametrize("parameters", [given for given, _ in TYPES.values()])
def test_completing_twice_changes_nothing(parameters: dict[str, Any]) -> None:
    once = resolved(Rotary(**parameters), 16)
    assert resolved(once, 16) == once


def test_two_spellings_of_a_request_become_one() -> None:
    spelled: dict[str, Any] = {
        "factor": 4.0,
        "beta_fast": 32.0,
        "truncate": True,
        "ramp": "channels",
        "longrope_list": "long",
    }
    short: dict[str, Any] = {
        "rope_type": "yarn",
        "original_max_position_embeddings": 2048,
        "max_position_embeddings": 8192,
    }
    assert resolved(Rotary(**short), 16) == resolved(Rotary(**short, **spelled), 16)
    # 0 is Hugging Face's way to leave a beta out.
    assert resolved(Rotary(**short, beta_fast=0, beta_slow=0), 16) == resolved(Rotary(**short), 16)


def test_ends_of_a_ramp_stay_within_the_width() -> None:
    low, high = ramp_ends(resolved(Rotary(**{**YARN, "original_max_position_embeddings": 2**40}), 16), 16)
    assert (int(low), int(high)) == (19, 15)
    low, high = ramp_ends(resolved(Rotary(**{**YARN, "original_max_position_embeddings": 64}), 16), 16)
    assert (int(low), int(high)) == (0, 3)


@pytest.mark.parametrize("width", [16, 96])
@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "dynamic", "factor": 4, "dynamic_rule": "uniform"},
        {"rope_type": "ntk", "factor": 4},
        {"rope_type": "ntk", "factor": 4, "mixed_b": 0.6},
        {**YARN, "ramp": "rotations"},
        {**YARN, "ramp": "inverted"},
        {**LLAMA3, "high_freq_factor": 1},
        {**LLAMA3, "low_freq_factor": 1e-6, "high_freq_factor": 2e-6},
        {"rope_type": "frequencies"},
        {"rope_type": "divisors"},
        {"rope_type": "proportional", "partial_rotary_factor": 0.3, "factor": 3},
    ],
)
def test_float32_steps_stay_near_the_real_numbers(parameters: dict[str, Any], width: int) -> None:
    # What no installed library has beside ours: the steps may lose some ulp, and not the formula.
    own = {name: tuple(np.linspace(0.1, 1.7, width // 2)) for name in ("frequencies", "divisors")}
    given = {**parameters, **{name: own[name] for name in own if name == parameters["rope_type"]}}
    wanted = {"dim": width, "base": 500_000, "output": "frequencies", **given}
    exact, single = only(ROPE, dtype="float64", **wanted), only(ROPE, arithmetic="float32", **wanted)
    np.testing.assert_allclose(single, exact, rtol=3e-6)
    assert single.dtype == np.float32


# Turning vectors


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
def test_turning_back_undoes_the_attention_factor(arithmetic: str) -> None:
    x = np.random.default_rng(3).standard_normal((5, 16))
    there = only(TURN, {"q": x}, offset=4090, arithmetic=arithmetic, **YARN)
    back = only(TURN, {"q": there}, offset=4090, direction="inverse", arithmetic=arithmetic, **YARN)
    assert np.linalg.norm(there) == pytest.approx(float(oracle.magnitude(40)) * np.linalg.norm(x), rel=1e-6)
    close(back, x, 1e-6 if arithmetic == "float32" else 1e-14)
    (scheme, params) = by_key("apply", "rope"), {"direction": "inverse", "attention_factor": 0, **YARN}
    fault = refused(TURN, {"q": x}, **params)
    assert (fault.parameter, fault.code) == ("direction", "conflict")
    assert scheme.facts(scheme.params(**YARN), {"q": x})["ramp_high"] == 6


def test_an_attention_factor_of_zero_makes_zeros() -> None:
    for arithmetic in ("exact", "float32"):
        got = answer(ROPE, dim=8, length=40, attention_factor=0, arithmetic=arithmetic, **YARN)
        assert not got["cos"].any()
        assert not got["sin"].any()


# llama.cpp


def ggml(theta: Array, scale: float, kept: Array | None, divisors: Array | None) -> Array:
    """The angles of llama.cpp's rope_yarn from the running product, value by value."""
    single = np.float32
    out = np.empty_like(theta)
    for place in np.ndindex(theta.shape):
        extrapolated = theta[place] / (single(1) if divisors is None else divisors[place[1]])
        interpolated = single(scale) * extrapolated
        out[place] = interpolated
        if kept is not None:
            out[place] = interpolated * (single(1) - kept[place[1]]) + extrapolated * kept[place[1]]
    return out


@pytest.mark.parametrize(
    ("parameters", "scale", "divisors", "kept"),
    [
        ({"rope_type": "linear", "factor": 3}, 1 / 3, None, None),
        ({"rope_type": "divisors", "divisors": LONG}, 1, LONG, None),
        ({**LONGROPE, "seq_len": 4097}, 1, LONG, None),
        # D(32) = 5.2 and D(1) = 11.25 of base 10: floor 5 and ceiling 12; truncate=False is not to be had.
        ({**YARN, "base": 10, "truncate": False}, 1 / 40, None, [1, 1, 1, 1, 1, 1, 6 / 7, 5 / 7]),
    ],
)
def test_ggml_scales_the_running_angle(parameters: dict[str, Any], scale: float, divisors: Any, kept: Any) -> None:
    positions = (1.0, 4095.0, 131_071.0)
    plain = {"dim": 16, "positions": positions, "arithmetic": "ggml", "output": "angles"}
    theta = only(ROPE, **plain, base=parameters.get("base", 10_000))
    single = [None if part is None else np.array(part, np.float64).astype(np.float32) for part in (kept, divisors)]
    got = only(ROPE, **plain, **parameters)
    if kept is not None:
        low, high = facts(16, **{**parameters, "truncate": True})["ramp_low"], 12
        single[0] = 1 - np.clip((np.arange(8, dtype=np.float32) - np.float32(low)) / np.float32(high - low), 0, 1)
    np.testing.assert_allclose(got, ggml(theta, float(np.float32(scale)), *single), rtol=2.0**-23, atol=0)
    factor = np.float32(facts(16, **parameters)["attention_factor"])
    table = answer(ROPE, **plain | {"output": "cos-sin", "columns": "half"}, **parameters)["cos"]
    np.testing.assert_allclose(table, np.cos(got.astype(np.float64)) * factor, rtol=0, atol=2.0**-22)


# Refusals


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"rope_type": "linear"}, "factor", "missing"),
        ({"rope_type": "dynamic", "factor": 2}, "max_position_embeddings", "missing"),
        ({"rope_type": "ntk_alpha"}, "alpha", "missing"),
        ({"rope_type": "yarn", "factor": 4}, "original_max_position_embeddings", "missing"),
        ({"rope_type": "yarn", "original_max_position_embeddings": 64}, "factor", "missing"),
        ({**LLAMA3, "low_freq_factor": None}, "low_freq_factor", "missing"),
        ({**LLAMA3, "high_freq_factor": 0.5}, "high_freq_factor", "out_of_range"),
        ({**YARN, "beta_slow": 33}, "beta_fast", "out_of_range"),
        ({**YARN, "base": 1}, "base", "out_of_range"),
        ({**YARN, "beta_slow": 1e-300}, "beta_slow", "out_of_range"),
        ({"base": 1e39, "arithmetic": "float32"}, "base", "out_of_range"),
        ({"rope_type": "ntk", "factor": 100, "base": 1e38, "arithmetic": "float32"}, "base", "out_of_range"),
        ({"rope_type": "ntk_alpha", "alpha": 100, "base": 1e38, "arithmetic": "float32"}, "base", "out_of_range"),
        ({**YARN, "attention_factor": 1e-6}, "attention_factor", "out_of_range"),
        ({**YARN, "factor": None, "max_position_embeddings": 64}, "max_position_embeddings", "out_of_range"),
        ({**LONGROPE, "short_factor": (1.0,)}, "short_factor", "shape"),
        ({**LONGROPE, "long_factor": ONES[1:]}, "long_factor", "shape"),
        ({**LONGROPE, "original_max_position_embeddings": 1}, "original_max_position_embeddings", "out_of_range"),
        (
            {**LONGROPE, "factor": 2, "max_position_embeddings": None, "longrope_attention": "ratio"},
            "max_position_embeddings",
            "missing",
        ),
        (
            {**LONGROPE, "factor": 2, "max_position_embeddings": None, "longrope_attention": "own-or-ratio"},
            "max_position_embeddings",
            "missing",
        ),
        ({"rope_type": "frequencies"}, "frequencies", "missing"),
        ({"rope_type": "divisors", "divisors": (1.0,)}, "divisors", "shape"),
        ({"rope_type": "divisors", "divisors": (1e-3,) * 8, "base": 1e-19}, "divisors", "out_of_range"),
        ({"rope_type": "proportional", "rotary_dim": 8}, "rotary_dim", "conflict"),
        ({"rope_type": "proportional", "partial_rotary_factor": 0.1}, "partial_rotary_factor", "out_of_range"),
        ({"rope_type": "proportional", "partial_rotary_factor": 0.5, "output": "divisors"}, "output", "conflict"),
        ({"rope_type": "linear", "factor": 1e6, "output": "divisors", "dtype": "float16"}, "dtype", "out_of_range"),
        ({"rope_type": "ntk", "factor": 2, "arithmetic": "ggml"}, "rope_type", "conflict"),
        ({"rope_type": "ntk_aware", "factor": 2, "rotary_dim": 2}, "rope_type", "out_of_range"),
        (
            {**DYNAMIC, "factor": 1e6, "seq_len": 2**53, "max_position_embeddings": 1, "base": 1e100, "dim": 256},
            "base",
            "out_of_range",
        ),
    ],
)
def test_refusals_name_the_parameter(parameters: dict[str, object], named: str, code: str) -> None:
    fault = refused(ROPE, **{"length": 2, "dim": 16, **parameters})
    assert (fault.parameter, fault.code) == (named, code)
    assert named in fault.detail or named in ("rope_type", "dtype")


def test_a_ramp_whose_ends_meet_is_a_step() -> None:
    """A trained length below one turn: both ends are pair 0, and transformers has 0.001 between them."""
    short: dict[str, Any] = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 6}
    low, high = ramp_ends(resolved(Rotary(**short), 128), 128)
    assert float(low) == float(high) == 0
    plain = only(ROPE, dim=128, arithmetic="float32", output="frequencies")
    scaled = only(ROPE, dim=128, arithmetic="float32", output="frequencies", **short)
    assert scaled[0] == plain[0]
    assert (scaled[1:] == plain[1:] / np.float32(4)).all()
