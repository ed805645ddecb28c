"""The comparison of arithmetics: figures measured with the libraries themselves, and the definition in loops."""

import ml_dtypes
import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import NDArray

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_rope import TABLES
from tests.oracles import oracle_rope
from tests.oracles.answers import Query, asked, asked_in_json
from tests.oracles.exact import rounded, rounded_rows
from tests.oracles.two_stage import of_case
from tests.oracles.usages import proves

PRECISION = "/v1/analyses/precision"
EXACT, FLOAT32, GGML, BFLOAT16, BFLOAT16_POSITIONS = range(5)


def compared(client: Client, **parameters: Query) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    tensors = asked(client, PRECISION, **parameters)
    return tensors["difference"], tensors["position"]


def test_the_order_is_stated(direct: Client) -> None:
    shown = asked_in_json(direct, PRECISION, length=4, dim=8)
    assert shown["facts"]["arithmetics"] == "exact, float32, ggml, bfloat16, bfloat16-positions"
    assert shown["tensors"]["difference"]["axes"] == ["arithmetic", "other"]


def test_up_to_position_131071(direct: Client) -> None:
    """transformers differs from the real numbers by 7.7e-3 there."""
    difference, position = compared(direct, length=131072, dim=128)
    assert difference[EXACT, FLOAT32] == pytest.approx(7.7e-3, abs=5e-5)
    assert difference[FLOAT32, EXACT] == difference[EXACT, FLOAT32]
    where = int(position[EXACT, FLOAT32])
    assert 120_000 < where <= 131_071
    alone, _ = compared(direct, positions=[where], dim=128)
    assert alone[EXACT, FLOAT32] == difference[EXACT, FLOAT32]


def test_figures_measured_with_the_libraries(direct: Client) -> None:
    difference, _ = compared(direct, length=4096, dim=128)
    assert difference[EXACT, FLOAT32] == pytest.approx(2.4e-4, abs=1e-5)  # transformers below 4096
    difference, _ = compared(direct, length=1000, offset=999_000, dim=128)
    assert difference[EXACT, FLOAT32] == pytest.approx(6.0e-2, abs=1e-3)  # and near a million
    difference, _ = compared(direct, positions=[4095], dim=128)
    assert difference[EXACT, GGML] <= 5e-4  # llama.cpp's angle is off by 5e-4 there
    difference, _ = compared(direct, positions=[131071], dim=128)
    assert difference[EXACT, FLOAT32] == pytest.approx(4.2e-3, abs=1e-4)  # the angle of transformers: 0.0042
    assert difference[EXACT, GGML] == pytest.approx(0.0129, abs=1e-3)  # that of llama.cpp: 0.0129
    assert difference[FLOAT32, GGML] == pytest.approx(0.011, abs=2e-4)  # their cosines


def test_scaled_tables_are_compared_as_the_encoding_has_them(direct: Client) -> None:
    scaled: dict[str, Query] = {"rope_type": "yarn", "factor": 16, "original_max_position_embeddings": 4096}
    asked_for: dict[str, Query] = {**scaled, "base": 500000, "length": 40, "offset": 130000}
    difference, position = compared(direct, dim=96, **asked_for)
    tables = {
        name: asked(direct, "/v1/encodings/rope", dim=96, columns="half", arithmetic=name, dtype=dtype, **asked_for)
        for name, dtype in (("exact", "float64"), ("float32", "float32"), ("ggml", "float32"))
    }
    for row, (name, own) in enumerate(tables.items()):
        for column, other in enumerate(tables.values()):
            apart = np.array(
                [np.abs(own[wave].astype(np.float64) - other[wave]).max(axis=1) for wave in ("cos", "sin")]
            )
            assert difference[row, column] == apart.max(), name
            if row != column:
                assert position[row, column] == 130000 + int(apart.max(axis=0).argmax())
    shown = asked_in_json(direct, PRECISION, dim=96, **{**asked_for, "mscale": 1, "low_freq_factor": 2})
    assert shown["facts"]["attention_factor"] == pytest.approx(1.277258872, rel=1e-9)
    assert shown["parameters"]["beta_fast"] == 32
    assert shown["notes"] == ["low_freq_factor has no effect with rope_type=yarn"]


def in_loops(arithmetic: int, position: int, dim: int, base: float) -> list[float]:
    """cos and sin of every pair in one arithmetic, by the definition, an operation at a time."""
    if arithmetic in (EXACT, BFLOAT16, BFLOAT16_POSITIONS):
        if arithmetic == BFLOAT16_POSITIONS:
            position = int(ml_dtypes.bfloat16(position))
        cosines, sines = oracle_rope.cos_sin(position, dim, base)
        dtype = "float64" if arithmetic == EXACT else "bfloat16"
        return [rounded(value, dtype) for value in cosines + sines]
    one, width = np.float32(1), np.float32(dim)
    angles = [np.float32(position)]
    ratio = np.float32(rounded(mpf(base) ** mpf(float(np.float32(-2) / width)), "float32"))
    for pair in range(1, dim // 2):
        power = np.float32(rounded(mpf(base) ** mpf(float(np.float32(2 * pair) / width)), "float32"))
        angles.append(angles[-1] * ratio if arithmetic == GGML else np.float32(position) * (one / power))
    exact = [mpmath.cos_sin(mpf(float(angle))) for angle in angles]
    return [rounded(cosine, "float32") for cosine, _ in exact] + [rounded(sine, "float32") for _, sine in exact]


@pytest.mark.parametrize(("dim", "base"), [(2, 10000.0), (34, 500000.0), (80, 100.0)])
def test_the_definition_in_loops(direct: Client, dim: int, base: float) -> None:
    positions = [131071, 3, 999999, 257, 4095]
    difference, position = compared(direct, positions=positions, dim=dim, base=base)
    with mpmath.workprec(200):
        tables = [[in_loops(arithmetic, p, dim, base) for p in positions] for arithmetic in range(5)]
    for own in range(5):
        for other in range(5):
            apart = np.abs(np.array(tables[own]) - np.array(tables[other])).max(axis=1)
            assert difference[own, other] == pytest.approx(apart.max(), abs=2.0**-52)
            assert apart[positions.index(int(position[own, other]))] == pytest.approx(apart.max(), abs=2.0**-52)


@proves(
    "analyses/precision",
    {"Llama 2, Mistral 7B v0.1, GPT-NeoX (base 10000)": "llama_d64", "Llama 3 (base 500000)": "llama31"},
)
def test_a_models_own_tables_differ_as_much(direct: Client, rope: Numbers, usage: Usage, oracle: str) -> None:
    """The cosines and sines of transformers from the real numbers, at positions up to 131071."""
    theirs, positions = of_case(rope, oracle), rope["positions"].tolist()
    case = TABLES[oracle]
    exact = [oracle_rope.cos_sin(position, case.head_dim, case.base) for position in positions]
    cosines, sines = (
        rounded_rows([cos for cos, _ in exact], "float64"),
        rounded_rows([sin for _, sin in exact], "float64"),
    )
    apart = max(np.abs(theirs["cos"] - cosines).max(), np.abs(theirs["sin"] - sines).max())
    difference, _ = compared(direct, positions=positions, dim=case.head_dim, **usage.parameters)
    assert difference[EXACT, FLOAT32] == pytest.approx(apart, rel=0.01)


def test_the_diagonal_is_zero_at_the_first_position(direct: Client) -> None:
    difference, position = compared(direct, length=3000, offset=-7, dim=6)
    assert np.diag(difference).tolist() == [0] * 5
    assert np.diag(position).tolist() == [-7] * 5
    assert (difference == difference.T).all()
    assert (position == position.T).all()


def test_what_is_too_much_is_refused_with_what_would_do(direct: Client) -> None:
    answer = direct.get(PRECISION, params={"length": "1000000000", "dim": "128"})
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert (fault["parameter"], fault["limit"], fault["requested"]) == ("length", 2**23 // 64, 10**9)
    assert direct.get(PRECISION, params={"length": "9", "dim": "8", "base": "0.5"}).status_code == 422
    assert direct.get(PRECISION, params={"length": "9", "dim": "7"}).status_code == 422


def test_wider_heads_than_any_models_are_refused(direct: Client) -> None:
    answer = direct.get(PRECISION, params={"length": "2", "dim": "8194"})
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert (fault["parameter"], fault["limit"], fault["requested"]) == ("dim", 8192, 8194)
