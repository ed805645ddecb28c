"""Scaled rotations known to break naive implementations, with their right answers (float64, to the digits stated)."""

import math
from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.rotation.rope_block import parameters_of_block
from tests.engine.answers import Array, answer, close, only, refused

ROPE, TURN = "encodings/rope", "apply/rope"


def inv(**parameters: object) -> Array:
    frequencies: Array = only(ROPE, output="frequencies", dtype="float64", **parameters)
    return frequencies


def pasted(block: dict[str, Any], **parameters: object) -> Array:
    return inv(**parameters_of_block(block), **parameters)


def facts(**parameters: object) -> dict[str, Any]:
    scheme = by_key("encodings", "rope")
    return dict(scheme.facts(scheme.params(**parameters), {}))


LLAMA31: dict[str, Any] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


@pytest.mark.parametrize("factor", [8.0, 8])
def test_d01_a_pasted_llama_31_block(factor: float) -> None:
    got = pasted({**LLAMA31, "factor": factor}, dim=128, base=500_000)[[0, 28, 29, 32, 34, 35, 63]]
    expected = [1, 3.211445995e-3, 2.166570764e-3, 5.248461610e-4, 1.785078128e-4, 9.556212354e-5, 3.068925989e-7]
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_d02_llama_32_of_one_billion() -> None:
    scaled, plain = pasted({**LLAMA31, "factor": 32}, dim=64, base=500_000), inv(dim=64, base=500_000)
    expected = [3.211445995e-3, 1.290547928e-3, 4.295567966e-4, 9.708287803e-5, 1.946163818e-5, 9.418306725e-8]
    np.testing.assert_allclose(scaled[[14, 15, 16, 17, 18, 31]], expected, rtol=1e-9)
    np.testing.assert_array_equal(scaled[:15], plain[:15])
    np.testing.assert_allclose(scaled[18:], plain[18:] / 32, rtol=1e-15)
    assert ((plain[15:18] / 32 < scaled[15:18]) & (scaled[15:18] < plain[15:18])).all()


def test_d03_what_was_scaled_is_what_is_answered() -> None:
    plain = inv(dim=128, base=500_000)[63]
    np.testing.assert_allclose(plain, 2.455140791e-6, rtol=1e-9)
    assert pasted(LLAMA31, dim=128, base=500_000)[63] != plain
    near, scaled = (answer(ROPE, dim=128, base=500_000, positions=(9000,), **more) for more in ({}, LLAMA31))
    assert (near["cos"] != scaled["cos"]).any()


def test_d05_divisors_for_gguf() -> None:
    got = only(ROPE, dim=128, base=500_000, output="divisors", dtype="float64", **LLAMA31)
    np.testing.assert_allclose(got[[28, 29, 32, 34, 35]], [1, 1.207483871, 2.694529688, 5.257326589, 8], rtol=1e-9)


def test_d07_linear_divides() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    got = only(TURN, {"q": x}, offset=8, rope_type="linear", factor=4)
    close(got, [-3.144039117, 1.919605347, -0.339143083, 4.03919736], 1e-9)
    np.testing.assert_array_equal(got, only(TURN, {"q": x}, offset=2))


DYNAMIC: dict[str, Any] = {"rope_type": "dynamic", "factor": 2, "dim": 128, "max_position_embeddings": 2048}


def test_d08_dynamic_ntk() -> None:
    stated = facts(**DYNAMIC, seq_len=4096)
    np.testing.assert_allclose(stated["effective_base"], 30527.7367488, rtol=1e-12)
    assert stated["attention_factor"] == 1
    got = inv(**DYNAMIC, seq_len=4096)
    np.testing.assert_allclose(got[[1, 63]], [0.850994291, 3.849273282e-5], rtol=1e-9)
    angles = only(ROPE, **DYNAMIC, seq_len=4096, positions=(7,), output="angles", dtype="float64")
    np.testing.assert_allclose(angles[0], 7 * got, rtol=1e-15)
    np.testing.assert_allclose(facts(**DYNAMIC, seq_len=8192)["effective_base"], 72195.8600865, rtol=1e-12)


def test_d09_nothing_is_remembered() -> None:
    lengths = [8192, 1024, 2048, 2049, 1024, 8192]
    tables = [inv(**DYNAMIC, seq_len=length).tobytes() for length in lengths]
    assert tables[1] == tables[2] == tables[4] == inv(dim=128).tobytes()
    assert tables[0] == tables[5] != tables[1]
    np.testing.assert_allclose(inv(**DYNAMIC, seq_len=1024)[63], 1.154781985e-4, rtol=1e-9)
    np.testing.assert_allclose(facts(**DYNAMIC, seq_len=2049)["effective_base"], 10009.9207118, rtol=1e-11)


@pytest.mark.parametrize("seq_len", [1024, 512, None])
def test_d10_below_the_trained_length_nothing_is_scaled(seq_len: int | None) -> None:
    assert facts(**DYNAMIC, seq_len=seq_len)["effective_base"] == 10_000
    np.testing.assert_array_equal(inv(**DYNAMIC, seq_len=seq_len), inv(dim=128))


def test_d13_yarn_with_and_without_the_trained_length() -> None:
    yarn: dict[str, Any] = {"rope_type": "yarn", "factor": 4, "dim": 128, "base": 1e6}
    expected = [1, 6.978305849e-3, 1.064360981e-3, 6.490394321e-5, 4.445698525e-5, 3.102344402e-7]
    for trained in ("original_max_position_embeddings", "max_position_embeddings"):
        stated = facts(**yarn, **{trained: 32768})
        assert (stated["ramp_low"], stated["ramp_high"]) == (23, 40)
        np.testing.assert_allclose(stated["attention_factor"], 1.138629436, rtol=1e-9)
        np.testing.assert_allclose(inv(**yarn, **{trained: 32768})[[0, 23, 30, 39, 40, 63]], expected, rtol=1e-9)
    assert refused(ROPE, length=1, **yarn).parameter == "original_max_position_embeddings"


def test_d14_an_explicit_factor_wins_and_that_is_said() -> None:
    yarn: dict[str, Any] = {"rope_type": "yarn", "dim": 64}
    yarn |= {"original_max_position_embeddings": 2048, "max_position_embeddings": 32768}
    np.testing.assert_allclose(facts(factor=4, **yarn)["attention_factor"], 1.138629436, rtol=1e-9)
    np.testing.assert_allclose(inv(factor=4, **yarn)[31], 3.333803580e-5, rtol=1e-9)
    scheme = by_key("encodings", "rope")
    assert "the factor was used" in " ".join(scheme.notes(scheme.params(length=1, factor=4, **yarn), {}))
    np.testing.assert_allclose(facts(**yarn)["attention_factor"], 1.277258872, rtol=1e-9)
    np.testing.assert_allclose(inv(**yarn)[31], 8.334508951e-6, rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "attention", "softmax"),
    [
        ({"mscale": 1, "mscale_all_dim": 1}, 1.0, 1.873854207),
        ({"mscale": 0.707, "mscale_all_dim": 0.707}, 1.0, 1.589626165),
        ({}, 1.368887945, None),
    ],
)
def test_d15_the_table_and_the_softmax_have_factors_of_their_own(
    given: dict[str, float], attention: float, softmax: float | None
) -> None:
    yarn = {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "dim": 64, **given}
    stated = facts(**yarn)
    np.testing.assert_allclose(stated["attention_factor"], attention, rtol=1e-9)
    assert ("softmax_factor" in stated) == (softmax is not None)
    if softmax is not None:
        np.testing.assert_allclose(stated["softmax_factor"], softmax, rtol=1e-9)
    expected = [0.07498942093, 0.05623413252, 8.334508951e-3, 1.778279410e-4, 3.333803580e-5, 3.333803580e-6]
    np.testing.assert_allclose(inv(**yarn)[[9, 10, 15, 22, 23, 31]], expected, rtol=1e-9)


def test_d19_longrope_chooses_by_the_length() -> None:
    longrope: dict[str, Any] = {
        "rope_type": "longrope",
        "dim": 8,
        "short_factor": (1, 1.1, 1.2, 1.3),
        "long_factor": (1, 2, 8, 32),
        "original_max_position_embeddings": 16,
        "max_position_embeddings": 64,
    }
    np.testing.assert_allclose(inv(**longrope, seq_len=16), [1, 0.0909090909, 8.33333e-3, 7.6923077e-4], rtol=1e-6)
    np.testing.assert_allclose(inv(**longrope, seq_len=17), [1, 0.05, 1.25e-3, 3.125e-5], rtol=1e-15)
    for length, used in ((16, "short"), (17, "long")):
        stated = facts(**longrope, seq_len=length)
        assert stated["list_used"] == used
        np.testing.assert_allclose(stated["attention_factor"], 1.224744871, rtol=1e-9)
    phi3 = {**longrope, "original_max_position_embeddings": 4096, "max_position_embeddings": 131072}
    np.testing.assert_allclose(facts(**phi3)["attention_factor"], 1.190238071, rtol=1e-9)


def test_d20_lists_are_as_long_as_half_the_rotated_width() -> None:
    lengths = {"factor": 32, "original_max_position_embeddings": 4096}
    partial = {"rope_type": "longrope", "dim": 128, "partial_rotary_factor": 0.75, **lengths}
    assert inv(**partial, short_factor=(1.5,) * 48, long_factor=(2,) * 48).shape == (48,)
    fault = refused(ROPE, length=1, **partial, short_factor=(1.5,) * 48, long_factor=(2,) * 64)
    assert fault.parameter == "long_factor"
    assert "expected 48, got 64" in fault.detail


def test_an_odd_partial_width_by_its_frequencies() -> None:
    """transformers: int(0.36 * 25) = 9 channels make five pairs, so ten channels turn."""
    own = tuple(10_000.0 ** (-2 * pair / 9) for pair in range(5))
    x = np.arange(1.0, 26.0)
    got = only(TURN, {"q": x}, offset=3, rotary_dim=10, rope_type="frequencies", frequencies=own)
    angles = 3 * np.array(own)
    close(got[:5], x[:5] * np.cos(angles) - x[5:10] * np.sin(angles), 1e-13)
    close(got[10:], x[10:], 0)


def test_d24_the_base_decides() -> None:
    for base, expected in ((1e6, 0.540302306), (1e4, -0.839071529)):
        table = answer(ROPE, dim=128, base=base, positions=(1000,), columns="half", dtype="float64")
        close(table["cos"][0, 32], expected, 1e-9)


def test_d24_the_base_is_10000_unless_given_and_is_stated() -> None:
    scheme = by_key("encodings", "rope")
    assert scheme.params(dim=128).base == 10_000
    assert scheme.params(dim=128, base="1000000").base == 1e6
    close(answer(ROPE, dim=128, positions=(1000,), columns="half", dtype="float64")["cos"][0, 32], -0.839071529, 1e-9)


def test_d25_local_and_global_layers() -> None:
    for block, expected in (
        ({"rope_type": "default", "rope_theta": 10_000}, 8.0),
        ({"rope_type": "linear", "factor": 8, "rope_theta": 1_000_000}, 0.1),
    ):
        params = parameters_of_block(block)
        angles = only(ROPE, dim=256, positions=(800,), output="angles", dtype="float64", **params)
        close(angles[0, 64], expected, 1e-12)


LONGROPE = {
    "rope_type": "longrope",
    "short_factor": (1.0,) * 4,
    "long_factor": (2.0,) * 4,
    "original_max_position_embeddings": 16,
    "max_position_embeddings": 64,
    "factor": 2,
}


@pytest.mark.parametrize(
    ("given", "said", "attention"),
    [
        ({}, "the factor was used", (1 + math.log(2) / math.log(16)) ** 0.5),
        ({"longrope_attention": "ratio"}, "the ratio was used", (1 + math.log(4) / math.log(16)) ** 0.5),
        ({"longrope_attention": "own-or-ratio"}, "the ratio was used", (1 + math.log(4) / math.log(16)) ** 0.5),
        ({"attention_factor": 3}, "neither was used, but attention_factor", 3.0),
        ({"attention_factor": 3, "longrope_attention": "own-or-ratio"}, "neither was used, but attention_factor", 3.0),
        (
            {"attention_factor": 3, "longrope_attention": "ratio"},
            "the ratio was used",
            (1 + math.log(4) / math.log(16)) ** 0.5,
        ),
        ({"short_mscale": 1.5, "long_mscale": 2}, "neither was used, but short_mscale and long_mscale", 1.5),
    ],
)
def test_a_note_says_which_of_factor_and_lengths_decided(given: dict[str, Any], said: str, attention: float) -> None:
    scheme = by_key("encodings", "rope")
    params = scheme.resolve(scheme.params(length=1, dim=8, **LONGROPE, **given), {})
    assert scheme.facts(params, {})["attention_factor"] == pytest.approx(attention, rel=1e-15)
    notes = scheme.notes(params, {})
    assert notes[-1] == ("factor is 2, and max_position_embeddings / original_max_position_embeddings is 4: " + said)
    ratio = "attention_factor has no effect with longrope_attention=ratio"
    assert (ratio in notes) == (given.get("longrope_attention") == "ratio" and "attention_factor" in given)


def test_a_factor_that_is_left_out_is_not_told_of() -> None:
    scheme = by_key("encodings", "rope")
    block = {name: value for name, value in LONGROPE.items() if name != "factor"}
    for given in ({"longrope_attention": "ratio"}, {"attention_factor": 3}, {}):
        assert scheme.notes(scheme.resolve(scheme.params(length=1, dim=8, **block, **given), {}), {}) == []
    both = scheme.params(length=1, dim=8, **block, attention_factor=3, short_mscale=1.5, long_mscale=2)
    assert scheme.notes(scheme.resolve(both, {}), {}) == [
        "attention_factor has no effect beside short_mscale and long_mscale"
    ]
