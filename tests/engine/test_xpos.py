"""xPos against its formula at a hundred digits, and what makes it xPos: scores that depend on distances."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.engine import by_key
from service.engine.numbers.single import float32_frequencies
from tests.engine.answers import DTYPE_NAMES, answer, assert_rounded_once, close, only, refused
from tests.oracles.exact import PRECISION_BITS, real
from tests.oracles.oracle_rope import frequencies
from tests.oracles.oracle_scaling import magnitude

ROPE, TURN = "encodings/rope", "apply/rope"
XPOS: dict[str, Any] = {"xpos_scale_base": 512, "xpos_center": 100}
POSITIONS = (0.0, 1.0, 100.0, 100.5, -3.0, 4097.0, 30_000.0)


def factors(position: float, width: int, sign: int = 1) -> list[mpf]:
    """zeta_k^(±(p - 100) / 512)."""
    power = sign * (real(position) - 100) / 512
    return [real(Fraction(10 * k + 2 * width, 7 * width)) ** power for k in range(width // 2)]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("role", ["query", "key"])
@pytest.mark.parametrize("width", [2, 6, 34])
def test_tables_are_rounded_once(width: int, role: str, dtype: str) -> None:
    near = [position for position in POSITIONS if dtype != "float16" or position < 4000]
    got = answer(ROPE, dim=width, positions=near, columns="half", dtype=dtype, xpos_role=role, **XPOS)
    with mpmath.workprec(PRECISION_BITS):
        for name, wave in (("cos", mpmath.cos), ("sin", mpmath.sin)):
            rows = [
                [
                    factor * wave(real(position) * w)
                    for factor, w in zip(
                        factors(position, width, 1 if role == "query" else -1), frequencies(width), strict=True
                    )
                ]
                for position in near
            ]
            assert_rounded_once(got[name], rows, dtype)


def test_with_a_scaling_and_its_attention_factor() -> None:
    yarn: dict[str, Any] = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}
    got = answer(ROPE, dim=8, positions=(0.0, 612.0), columns="half", dtype="float64", **yarn, **XPOS)
    plain = answer(ROPE, dim=8, positions=(0.0, 612.0), columns="half", dtype="float64", **yarn)
    with mpmath.workprec(PRECISION_BITS):
        expected = [float(factor) for factor in factors(612, 8)]
    np.testing.assert_allclose(got["cos"][1], plain["cos"][1] * expected, rtol=1e-14)
    assert plain["cos"][0, 0] == float(magnitude(4))


def test_a_block_of_rows_is_that_block_of_the_whole() -> None:
    wanted = {"dim": 34, "dtype": "float64", **XPOS}
    whole = answer(ROPE, offset=-5, length=1200, **wanted)
    part = answer(ROPE, offset=995, length=50, **wanted)
    for name in ("cos", "sin"):
        assert whole[name][1000:1050].tobytes() == part[name].tobytes()
        listed = answer(ROPE, positions=tuple(range(995, 1045)), **wanted)[name]
        assert listed.tobytes() == part[name].tobytes()


def test_scores_depend_on_the_distance_whatever_the_center() -> None:
    rng = np.random.default_rng(8)
    q, k = rng.standard_normal((2, 1, 16))

    def score(m: int, n: int, center: float) -> float:
        turned = (
            answer(TURN, {"q": q, "k": k}, positions=(place,), xpos_scale_base=512, xpos_center=center)[name]
            for name, place in (("q", m), ("k", n))
        )
        a, b = turned
        return float((a * b).sum())

    assert score(40, 7, 0) == pytest.approx(score(140, 107, 0), rel=1e-12)
    assert score(40, 7, 0) == pytest.approx(score(40, 7, 23), rel=1e-12)
    q, k = np.eye(2, 16)[:1], np.eye(2, 16)[:1]  # the first pair alone: zeta_0 = 2/7
    assert score(900, 0, 0) == pytest.approx((2 / 7) ** (900 / 512) * np.cos(900), rel=1e-12)


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
def test_turning_back_undoes_it(arithmetic: str) -> None:
    x = np.random.default_rng(9).standard_normal((2, 5, 16))
    there = answer(TURN, {"q": x[0], "k": x[1]}, offset=700, arithmetic=arithmetic, **XPOS)
    back = answer(TURN, there, offset=700, arithmetic=arithmetic, direction="inverse", **XPOS)
    close(back["q"], x[0], 1e-5 if arithmetic == "float32" else 1e-14)
    close(back["k"], x[1], 1e-5 if arithmetic == "float32" else 1e-14)
    assert (there["q"] != answer(TURN, {"q": x[1]}, offset=700, arithmetic=arithmetic, **XPOS)["q"]).any()


def test_float32_steps() -> None:
    positions = np.array([0, 100, 613, 5000], np.float32)
    got = answer(ROPE, dim=34, positions=positions.tolist(), columns="half", arithmetic="float32", **XPOS)
    zeta = (np.arange(0, 34, 2, dtype=np.float32) + np.float32(0.4 * 34)) / np.float32(1.4 * 34)
    power = (positions - np.float32(100)) / np.float32(512)
    with mpmath.workprec(100):
        scale = np.array([[mpf(float(z)) ** mpf(float(p)) for z in zeta] for p in power], np.float64).astype(np.float32)
    cos = answer(ROPE, dim=34, positions=positions.tolist(), columns="half", arithmetic="float32")["cos"]
    np.testing.assert_array_equal(got["cos"], cos * scale)
    keys = answer(ROPE, dim=34, positions=positions.tolist(), arithmetic="float32", xpos_role="key", **XPOS)
    np.testing.assert_array_equal(keys["cos"][:, :17], cos * (np.float32(1) / scale))
    inv_freq = only(ROPE, dim=34, output="frequencies", arithmetic="float32", **XPOS)
    np.testing.assert_array_equal(inv_freq, float32_frequencies(10_000.0, 34, 17))
    angles = only(ROPE, dim=34, positions=(613.0,), output="angles", arithmetic="float32", **XPOS)
    np.testing.assert_array_equal(angles[0], np.float32(613) * inv_freq)


def test_angles_and_frequencies_have_no_amplitude() -> None:
    for output in ("angles", "frequencies"):
        plain = only(ROPE, dim=8, positions=(7.0,), output=output)
        np.testing.assert_array_equal(only(ROPE, dim=8, positions=(7.0,), output=output, **XPOS), plain)


def test_values_near_the_ends_of_float64_are_right_too() -> None:
    # e^300 times smaller at the far end, and a position whose sine is tiny: double-double has no room for both.
    far = {"positions": (1e-300, 100_000.0), "dim": 2, "columns": "half", "dtype": "float64", "xpos_scale_base": 512}
    got = answer(ROPE, **far, rope_type="frequencies", frequencies=(1e-6,))
    with mpmath.workprec(PRECISION_BITS):
        exact = [[factors(position + 100, 2)[0] * mpmath.sin(real(position) * real(1e-6))] for position in (0, 1e5)]
    np.testing.assert_allclose(got["sin"][1], float(exact[1][0]), rtol=1e-15)
    np.testing.assert_allclose(got["sin"][0], 1e-306, rtol=1e-15)


@pytest.mark.parametrize(
    ("parameters", "named", "code"),
    [
        ({"arithmetic": "ggml"}, "xpos_scale_base", "conflict"),
        ({"offset": 200_000}, "xpos_center", "out_of_range"),
        ({"offset": -200_000}, "xpos_center", "out_of_range"),
        ({"offset": 40_000, "xpos_role": "key"}, "dtype", "out_of_range"),
        ({"offset": -40_000}, "dtype", "out_of_range"),
    ],
)
def test_refusals(parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(ROPE, **{"length": 2, "dim": 8, **XPOS, **parameters})
    assert (fault.parameter, fault.code) == (named, code)


def test_positions_that_are_too_far_for_vectors() -> None:
    fault = refused(TURN, {"q": np.ones((1, 4), np.float32)}, positions=(-40_000.0,), **XPOS)
    assert (fault.parameter, fault.code) == ("dtype", "out_of_range")


def test_notes_and_memory() -> None:
    scheme, turning = by_key("encodings", "rope"), by_key("apply", "rope")
    assert scheme.notes(scheme.params(dim=8, length=1, xpos_center=3), {}) == [
        "xpos_center has no effect without xpos_scale_base"
    ]
    told = scheme.notes(scheme.params(dim=8, output="frequencies", xpos_scale_base=512), {})
    assert told == ["xpos_scale_base has no effect with output=frequencies"]
    q = {"q": np.ones((3, 8))}
    plain, decaying = (turning.state_bytes(turning.params(**more), q) for more in ({}, XPOS))
    assert decaying == 2 * plain


def test_keys_alone_are_turned_as_beside_their_queries() -> None:
    random = np.random.default_rng(9)
    q, k = random.standard_normal((2, 3, 5, 12))
    given: dict[str, Any] = {"xpos_scale_base": 512.0, "xpos_center": 2.0, "offset": 40}
    both = answer("apply/rope", {"q": q, "k": k}, **given)
    assert only("apply/rope", {"q": k}, **given, xpos_role="key").tobytes() == both["k"].tobytes()
    assert (only("apply/rope", {"q": k}, **given) != both["k"]).any()
    fault = refused("apply/rope", {"q": q, "k": k}, **given, xpos_role="key")
    assert (fault.parameter, fault.code) == ("xpos_role", "conflict")
    scheme = by_key("apply", "rope")
    assert scheme.notes(scheme.params(xpos_role="key"), {"q": k}) == ["xpos_role has no effect with no xpos_scale_base"]
    assert scheme.notes(scheme.params(xpos_role="key", xpos_scale_base=512.0), {"q": k}) == []


@pytest.mark.parametrize(("centering", "length", "center"), [
    ("zero", 9, 0), ("middle", 9, 4), ("middle-up", 9, 5), ("middle", 8, 4), ("middle-up", 8, 4),
])  # fmt: skip
@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize("offset", [0, 40])
def test_the_centre_by_the_number_of_positions(
    centering: str, length: int, center: int, arithmetic: str, offset: int
) -> None:
    given: dict[str, Any] = {"xpos_scale_base": 512, "arithmetic": arithmetic, "offset": offset}
    spelled, named = {**given, "xpos_center": center}, {**given, "xpos_centering": centering}
    tables = [answer(ROPE, dim=8, length=length, **each) for each in (spelled, named)]
    assert tables[0]["cos"].tobytes() == tables[1]["cos"].tobytes()
    assert (
        tables[1]["cos"][:, 0] != answer(ROPE, dim=8, length=length, **{**spelled, "xpos_center": 300})["cos"][:, 0]
    ).all()
    x = np.random.default_rng(1).standard_normal((2, length, 8)).astype(np.float32)
    turned = [answer(TURN, {"q": x, "k": x}, **each) for each in (spelled, named)]
    assert all(turned[0][name].tobytes() == turned[1][name].tobytes() for name in ("q", "k"))
    for key, more in ((("encodings", "rope"), {"dim": 8, "length": length}), (("apply", "rope"), {})):
        scheme, inputs = by_key(*key), {"q": x} if key[0] == "apply" else {}
        whole = [scheme.resolve(scheme.params(**each, **more), inputs) for each in (spelled, named)]
        assert whole[0] == whole[1]
        both = scheme.resolve(scheme.params(**named, **more, xpos_center=3), inputs)
        assert both.xpos_center == 3  # what is stated wins over a preset's rule


def test_no_xpos_no_centre() -> None:
    scheme = by_key("encodings", "rope")
    plain, named = (scheme.params(dim=8, length=9, **more) for more in ({}, {"xpos_centering": "middle"}))
    assert scheme.resolve(plain, {}) == scheme.resolve(named, {})
    assert scheme.notes(named, {}) == []
    frequencies = scheme.params(dim=8, output="frequencies", xpos_scale_base=512, xpos_centering="middle")
    assert scheme.resolve(frequencies, {}).xpos_center == 0
    # Tables are shared by requests of one centre, not by those of one rule.
    keys = []
    for length in (9, 8, 5):
        shared = scheme.sequence(scheme.params(dim=8, length=length, xpos_scale_base=512, xpos_centering="middle"), {})
        assert shared is not None
        keys.append(shared.key)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("dtype", "factor", "below", "above"),
    [
        ("float32", 1 + 3 * 2.0**-24, 1 + 2.0**-23, 1 + 2.0**-22),
        ("bfloat16", 1 + 3 * 2.0**-8, 1 + 2.0**-7, 1 + 2.0**-6),
        ("float16", 1 + 3 * 2.0**-11, 1 + 2.0**-10, 1 + 2.0**-9),
    ],
)
@pytest.mark.parametrize("position", [1e-29, 1e-55, 1e-70, 1e-150, 1e-300, 5e-324])
def test_a_factor_beside_1_decides_a_tie(
    dtype: str, factor: float, below: float, above: float, position: float
) -> None:
    """zeta^(p/B) is less than 1 for every p above 0, and more below it, by less than 80 digits tell."""
    given = {"rope_type": "frequencies", "frequencies": (1.0,), "attention_factor": factor, "xpos_scale_base": 512.0}
    for role, nearer in (("query", below), ("key", above)):
        cos = answer(ROPE, dim=2, dtype=dtype, xpos_role=role, positions=(position, -position), columns="half", **given)
        assert cos["cos"][:, 0].astype(np.float64).tolist() == [nearer, {below: above, above: below}[nearer]]


@pytest.mark.parametrize("position", [2.0**-100, 2.0**-120])
def test_a_tiny_sine_beside_a_tie(position: float) -> None:
    """A p w is half way between two float32; the factor decides, for the sine itself is nearer to it."""
    factor = 1 + 3 * 2.0**-24
    given = {"rope_type": "frequencies", "frequencies": (1.0,), "attention_factor": factor, "xpos_scale_base": 512.0}
    sines = [
        answer(ROPE, dim=2, xpos_role=role, positions=(position,), columns="half", **given)["sin"][0, 0]
        for role in ("query", "key")
    ]
    exact = [position * (1 + 2.0**-23), position * (1 + 2.0**-22)]
    assert sines == [np.float32(each) for each in exact]


@pytest.mark.parametrize(("role", "nearer"), [("query", 1 + 2.0**-23), ("key", 1 + 2.0**-22)])
def test_a_factor_of_1_leaves_a_tie(role: str, nearer: float) -> None:
    """At position 0; behind it the factor decides, though the angle is larger by far than its logarithm."""
    given = {"rope_type": "frequencies", "frequencies": (1e6,), "xpos_scale_base": 512.0, "xpos_role": role}
    tie = 1 + 3 * 2.0**-24  # half way between 1 + 2^-23 and 1 + 2^-22, of which the second is even
    cos = answer(ROPE, dim=2, positions=(0.0, 1e-27), columns="half", attention_factor=tie, **given)["cos"]
    assert cos[:, 0].astype(np.float64).tolist() == [1 + 2.0**-22, nearer]
