"""Rotary tables of other widths and of partial rotation, against transformers 5.24 by the two-stage rule.

Widths 34, 80 and 96 are here because k/d is no binary fraction: PyTorch's float32 exponents then move the
frequencies by up to six ulp away from the real numbers.
"""

import mpmath
import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_rope import TABLES
from tests.oracles import oracle_rope
from tests.oracles.answers import Array, Query, asked
from tests.oracles.exact import PRECISION_BITS, from_bfloat16_bits, real, rounded, rounded_rows, ulps_apart
from tests.oracles.two_stage import (
    ROPE,
    check_exact_tables,
    check_float32_tables,
    check_frequencies,
    check_library,
    of_case,
)
from tests.oracles.usages import proves

OTHERS = [name for name in TABLES if name != "llama31"]


@pytest.mark.parametrize("name", OTHERS)
def test_the_two_stages(direct: Client, rope: Numbers, name: str) -> None:
    frozen = of_case(rope, name)
    check_library(frozen)
    check_frequencies(direct, TABLES[name], frozen)
    check_float32_tables(direct, TABLES[name], frozen)


@pytest.mark.parametrize("name", OTHERS)
def test_exact_tables_are_the_real_numbers_rounded_once(direct: Client, name: str) -> None:
    check_exact_tables(direct, TABLES[name], [1, 17, 257, 8193, 131071, 2**53, -5])


def test_float32_frequencies_of_width_34_are_the_librarys_and_not_the_real_numbers(
    direct: Client, rope: Numbers
) -> None:
    ours = asked(direct, ROPE, dim=34, output="frequencies", arithmetic="float32")
    real = [rounded(value, "float32") for value in oracle_rope.frequencies(34)]
    assert ulps_apart(ours["frequencies"], rope["llama_d34.inv_freq"]).max() <= 2
    assert ulps_apart(ours["frequencies"], real).max() >= 3


def test_gptj_tables_of_rotary_dim_64(direct: Client, rope: Numbers) -> None:
    positions = rope["positions"][: len(rope["gptj_d64.cos"])]
    inv_freq = asked(direct, ROPE, dim=256, rotary_dim=64, output="frequencies", arithmetic="float32")
    # GPT-J's frequencies are Llama's of that width: the file holds them once.
    same = inv_freq["frequencies"] == rope["llama_d64.inv_freq"]
    assert same.mean() > 0.75
    tables = asked(
        direct,
        ROPE,
        dim=256,
        rotary_dim=64,
        positions=positions.tolist(),
        pairing="interleaved",
        arithmetic="float32",
    )
    for name in ("cos", "sin"):
        assert tables[name].shape == (len(positions), 64)
        assert ulps_apart(tables[name][:, ::2][:, same], rope[f"gptj_d64.{name}"][:, same]).max() <= 1
        assert np.array_equal(tables[name][:, ::2], tables[name][:, 1::2])


@proves(
    "encodings/rope",
    {
        "Llama, Mistral, Qwen, Gemma, GPT-NeoX and most models in Hugging Face form": "llama_d64",
        "GPT-J, CodeGen, Cohere, GLM; Meta's own Llama code; torchtune": "gptj_d64",
        "Phi-2 (32 of 80 channels)": "phi_d80_0.4",
        "ONNX RotaryEmbedding caches": "llama_d64",
    },
)
def test_a_usage_is_its_librarys_table(direct: Client, rope: Numbers, usage: Usage, oracle: str) -> None:
    theirs = of_case(rope, oracle)
    width = 2 * theirs["cos"].shape[1]
    positions = rope["positions"][: len(theirs["cos"])].tolist()
    named: dict[str, Query] = {"dim": width, **usage.parameters, "arithmetic": "float32"}
    inv_freq = asked(direct, ROPE, **named, output="frequencies")["frequencies"]
    same = inv_freq == rope[f"{'llama_d64' if oracle == 'gptj_d64' else oracle}.inv_freq"]
    assert same.mean() > 0.75
    tables = asked(direct, ROPE, **named, positions=positions)
    for name in ("cos", "sin"):
        left, right = table_halves(tables[name], dict(usage.parameters))
        assert ulps_apart(left[:, same], theirs[name][:, same]).max() <= 1
        assert np.array_equal(left, right)


def table_halves(table: Array, parameters: dict[str, str]) -> tuple[Array, Array]:
    """The two columns of every pair, which are one where there is one column a pair."""
    if parameters.get("columns") == "half":
        return table, table
    if parameters.get("pairing") == "interleaved":
        return table[:, ::2], table[:, 1::2]
    return table[:, : table.shape[1] // 2], table[:, table.shape[1] // 2 :]


def test_real_positions_between_the_integers(direct: Client) -> None:
    positions = [0.5, -0.25, 1e-3, 1e6 + 0.125]
    tables = asked(direct, ROPE, dim=6, positions=positions, columns="half")
    exact = [oracle_rope.cos_sin(position, 6) for position in positions]
    assert np.array_equal(tables["cos"], rounded_rows([cos for cos, _ in exact], "float32"))
    assert np.array_equal(tables["sin"], rounded_rows([sin for _, sin in exact], "float32"))


def test_angles_are_the_products_rounded_once(direct: Client) -> None:
    positions = [0, 1, 7, 257, 259, 4097]  # 257 and 259 are ties of bfloat16: one goes down, one up
    for dtype in ("float32", "bfloat16"):
        ours = asked(direct, ROPE, dim=34, positions=positions, output="angles", dtype=dtype)
        exact = [oracle_rope.angles(position, 34) for position in positions]
        assert np.array_equal(ours["angles"], rounded_rows(exact, dtype))


@pytest.mark.parametrize(("offset", "length"), [(0, 40), (4090, 20), (131060, 12), (-3, 7)])
def test_consecutive_positions_are_the_real_numbers_too(direct: Client, offset: int, length: int) -> None:
    # A range of positions may be computed by another way than single ones: it has the same bits to give.
    tables = asked(direct, ROPE, dim=10, offset=offset, length=length, columns="half")
    exact = [oracle_rope.cos_sin(position, 10) for position in range(offset, offset + length)]
    assert np.array_equal(tables["cos"], rounded_rows([cos for cos, _ in exact], "float32"))
    assert np.array_equal(tables["sin"], rounded_rows([sin for _, sin in exact], "float32"))


def test_bfloat16_rounds_the_answer_and_not_the_position(direct: Client) -> None:
    # A position rounded to bfloat16 would be 15936, whose cosine is -0.268; inv_freq rounded would give
    # 0.424 below.
    tables = asked(direct, ROPE, dim=128, positions=[257, 15962, 4095], columns="half", dtype="bfloat16")
    expected = from_bfloat16_bits(np.array([0xBF68], np.uint16))
    assert tables["cos"][1, 0] == expected[0] == -0.90625
    assert tables["cos"][2, 1] == np.float32(rounded(oracle_rope.cos_sin(4095, 128)[0][1], "bfloat16"))
    assert abs(tables["cos"][2, 1] - -0.742365818) < 2**-9


@pytest.mark.parametrize(("dim", "base"), [(128, 10000), (112, 1000000), (192, 1000000), (6, 500000.1096)])
def test_ggml_multiplies_its_angle_from_pair_to_pair(direct: Client, dim: int, base: float) -> None:
    # The ratio is a float32 power whose exponent -2/dim is a float32 too (widths
    # 112 and 192 tell), and so is the base.
    exponent = real(float(np.float32(-2) / np.float32(dim)))
    with mpmath.workprec(PRECISION_BITS):
        scale = np.float32(rounded(real(float(np.float32(base))) ** exponent, "float32"))
    positions = [1, 4095, 131071]
    angles = np.empty((len(positions), dim // 2), dtype=np.float32)
    for row, position in enumerate(positions):
        angle = np.float32(position)
        for pair in range(dim // 2):
            angles[row, pair] = angle
            angle = np.float32(angle * scale)
    wanted: dict[str, Query] = {"dim": dim, "base": base, "positions": positions, "columns": "half"}
    tables = asked(direct, ROPE, **wanted, arithmetic="ggml")
    for name, wave in {"cos": np.cos, "sin": np.sin}.items():
        assert ulps_apart(tables[name], wave(angles.astype(np.float64)).astype(np.float32)).max() <= 1
