"""Sinusoidal tables against transformers, diffusers, the introductions' module and the paper's loops."""

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_sinusoidal import CASES, Case
from tests.oracles import oracle_sinusoidal
from tests.oracles.answers import Query, asked, asked_in_json, from_json, posted, posted_json
from tests.oracles.exact import rounded, rounded_rows, ulps_apart

SINUSOIDAL = "/v1/encodings/sinusoidal"
ADD = "/v1/apply/sinusoidal"
EPS = 2.0**-24


def parameters(case: Case) -> dict[str, Query]:
    """The service's parameters for a library's table."""
    given: dict[str, Query] = {
        "dim": case.dim,
        "layout": case.layout,
        "odd_width": case.odd_width,
        "frequency_shift": case.frequency_shift,
        "positions": [int(p) if p == int(p) else p for p in case.positions],
    }
    if case.padding_idx is not None:
        given["padding_idx"] = case.padding_idx
    return given


def paper(case: Case, dtype: str) -> NDArray[np.float64]:
    """The case's table in the paper's own loops, rounded once."""
    rows = [
        oracle_sinusoidal.encoding(
            position,
            case.dim,
            layout=case.layout,
            odd_width=case.odd_width,
            frequency_shift=case.frequency_shift,
        )
        for position in case.positions
    ]
    table = rounded_rows(rows, dtype)
    if case.padding_idx is not None:
        table[[position == case.padding_idx for position in case.positions]] = 0
    return table


def float32_error(case: Case) -> NDArray[np.float64]:
    """What a table of float32 steps can differ from the real numbers by, element by element (positions, dim).

    w = exp(x) with x = k * -c: two roundings of x (and one of c before it) move w by 3 |x| eps, the
    exponential by 2 eps, the angle's product by eps; sine and cosine move at most as the angle does, and by
    2 eps of their own.
    """
    log_w = np.zeros(case.dim)
    pairs = case.dim // 2
    exponents = -np.log(10000) * np.arange(pairs) / (pairs - case.frequency_shift)
    if case.layout == "interleaved":
        log_w[0 : 2 * pairs : 2] = log_w[1 : 2 * pairs : 2] = exponents
    else:
        log_w[: 2 * pairs] = np.tile(exponents, 2)
    angles = np.array(case.positions)[:, None] * np.exp(log_w)
    bound: NDArray[np.float64] = angles * (3 * np.abs(log_w) + 3) * EPS + 2 * EPS
    return bound


@pytest.mark.parametrize("name", CASES)
def test_the_library_agrees_with_the_papers_loops(sinusoidal: Numbers, name: str) -> None:
    case, frozen = CASES[name], sinusoidal[f"{name}.table"]
    if case.arithmetic == "float64":
        # Float64 angles, rounded to float32 at the end: a table entry may fall to the other side of a tie
        # at most.
        assert ulps_apart(frozen, paper(case, "float32")).max() <= 1
    else:
        assert (np.abs(frozen - paper(case, "float64")) <= float32_error(case)).all()


@pytest.mark.parametrize("name", CASES)
def test_the_service_agrees_with_the_library(direct: Client, sinusoidal: Numbers, name: str) -> None:
    case, frozen = CASES[name], sinusoidal[f"{name}.table"]
    ours = asked(direct, SINUSOIDAL, **parameters(case))["encoding"]
    assert ours.dtype == np.float32
    if case.arithmetic == "float64":
        assert ulps_apart(ours, frozen).max() <= 1
    else:
        assert (np.abs(ours.astype(np.float64) - frozen) <= float32_error(case) + EPS).all()


@pytest.mark.parametrize("name", CASES)
def test_the_service_is_the_papers_loops_rounded_once(direct: Client, name: str) -> None:
    case = CASES[name]
    for dtype in ("float32", "float16", "bfloat16"):
        ours = asked(direct, SINUSOIDAL, **parameters(case), dtype=dtype)
        assert np.array_equal(ours["encoding"], paper(case, dtype)), dtype
    ours = asked(direct, SINUSOIDAL, **parameters(case), dtype="float64")
    assert ulps_apart(ours["encoding"], paper(case, "float64"), "float64").max() <= 1


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 34, 33])
@pytest.mark.parametrize("layout", ["interleaved", "sin-cos", "cos-sin"])
@pytest.mark.parametrize("base", [100, 10000, 1.2e7])
def test_every_width_and_layout(direct: Client, dim: int, layout: str, base: float) -> None:
    positions = [0, 1, 4095, 2**24 + 1, -7, 0.5]
    ours = asked(direct, SINUSOIDAL, dim=dim, layout=layout, base=base, positions=positions)
    rows = [oracle_sinusoidal.encoding(position, dim, base, layout) for position in positions]
    assert np.array_equal(ours["encoding"], rounded_rows(rows, "float32"))


def test_an_odd_width_with_a_shift_keeps_half_the_width_in_its_exponents(direct: Client) -> None:
    for odd_width in ("extra-sine", "zero-column"):
        ours = asked(direct, SINUSOIDAL, dim=7, odd_width=odd_width, frequency_shift=1, positions=[1, 300])
        rows = [oracle_sinusoidal.encoding(p, 7, odd_width=odd_width, frequency_shift=1) for p in (1, 300)]
        assert np.array_equal(ours["encoding"], rounded_rows(rows, "float32"))


def test_consecutive_rows_are_the_rows_of_their_positions(direct: Client) -> None:
    ours = asked(direct, SINUSOIDAL, dim=6, length=300, offset=1900)
    rows = [oracle_sinusoidal.encoding(position, 6) for position in range(1900, 2200)]
    assert np.array_equal(ours["encoding"], rounded_rows(rows, "float32"))


def test_bfloat16_is_rounded_and_not_cut_off(direct: Client) -> None:
    answer = direct.get(f"{SINUSOIDAL}.bin", params={"positions": "1,2,3", "dim": "4", "dtype": "bfloat16"})
    assert answer.status_code == 200
    bits = np.frombuffer(answer.content, "<u2").reshape(3, 4)
    # sin(0.01), cos(0.01), sin(2), sin(3): the last bits that cutting off would lose.
    assert [int(bits[place]) for place in ((0, 2), (0, 3), (1, 0), (2, 0))] == [
        0x3C24,
        0x3F80,
        0x3F69,
        0x3E11,
    ]


def test_json_holds_the_same_numbers(direct: Client) -> None:
    table = asked(direct, SINUSOIDAL, length=7, dim=34, layout="sin-cos")
    shown = asked_in_json(direct, SINUSOIDAL, length=7, dim=34, layout="sin-cos")
    assert shown["tensors"]["encoding"]["axes"] == ["position", "channel"]
    assert np.array_equal(from_json(shown["tensors"]["encoding"]), table["encoding"])


def test_the_worked_example_of_every_introduction(direct: Client) -> None:
    added = posted_json(direct, ADD, {"tensors": {"x": [[0.51, -0.22, 0.88, 0.14]]}}, dtype="float64")
    assert added["x"][0] == pytest.approx([0.51, 0.78, 0.88, 1.14], abs=1e-12)


def test_embeddings_are_scaled_before_the_encoding_is_added(direct: Client) -> None:
    x = [[0.5, -0.25, 1, 0, 2], [1, 1, 1, 1, 1]]
    added = posted_json(direct, ADD, {"tensors": {"x": x}}, dtype="float64", embedding_scale="sqrt-dim", offset=3)
    rows = rounded_rows([oracle_sinusoidal.encoding(position, 5) for position in (3, 4)], "float64")
    assert added["x"] == pytest.approx(np.array(x) * np.sqrt(5) + rows, abs=1e-14)


# arithmetic=float32: the two-stage rule (tests/oracles/two_stage.py) for the modules of model code.

FLOAT32_CASES = [name for name in CASES if name.startswith(("introduction", "whisper", "m2m100"))]


def library_frequencies(case: Case, form: str = "exp-log") -> NDArray[np.float32]:
    """exp(k * -c) in float32, c = ln(10000) / (half - shift), or 1 / 10000^(k / half), each step rounded once."""
    half, k = case.dim // 2 - case.frequency_shift, np.arange(case.dim // 2, dtype=np.float32)
    with mpmath.workprec(200):
        if form == "power":
            exponents = (k / np.float32(half)).tolist()
            powers = [rounded(mpmath.mpf(10000) ** mpmath.mpf(exponent), "float32") for exponent in exponents]
            return (np.float32(1) / np.array(powers, np.float32)).astype(np.float32)
        exponents = (k * np.float32(-np.log(10000.0) / half)).tolist()
        return np.array([rounded(mpmath.exp(mpmath.mpf(exponent)), "float32") for exponent in exponents], np.float32)


@pytest.mark.parametrize("name", FLOAT32_CASES)
def test_float32_arithmetic_by_the_two_stage_rule(direct: Client, sinusoidal: Numbers, name: str) -> None:
    """(i) the frequencies of the recipe, which is the library's within 2 ulp; (ii) tables within 1 ulp of the library's
    where the frequencies are the same bits, which is where the library's own rows follow from the recipe's."""
    case, frozen = CASES[name], sinusoidal[f"{name}.table"]
    wanted: dict[str, Query] = {**parameters(case), "arithmetic": "float32"}
    ours = asked(direct, SINUSOIDAL, **wanted, output="frequencies")["frequencies"]
    assert ulps_apart(ours, library_frequencies(case)).max() == 0
    table = asked(direct, SINUSOIDAL, **wanted)["encoding"]
    pairs = case.dim // 2
    sines = frozen[:, 0 : 2 * pairs : 2] if case.layout == "interleaved" else frozen[:, :pairs]
    angles = np.array(case.positions, np.float32)[:, None] * ours
    rows = [place for place, position in enumerate(case.positions) if position != case.padding_idx]
    cosines = frozen[:, 1 : 2 * pairs : 2] if case.layout == "interleaved" else frozen[:, pairs : 2 * pairs]
    same = np.ones(pairs, np.bool_)
    for wave, theirs in ((np.sin, sines), (np.cos, cosines)):
        recipe = wave(angles.astype(np.float64)).astype(np.float32)[rows]
        same &= (ulps_apart(recipe.reshape(-1), theirs[rows].reshape(-1)) <= 1).reshape(recipe.shape).all(axis=0)
    assert same.mean() > 0.75
    if case.layout == "interleaved":
        columns = np.repeat(same, 2)
    else:
        columns = np.concatenate([same, same, np.ones(case.dim - 2 * pairs, np.bool_)])
    assert ulps_apart(table[:, columns], frozen[:, columns]).max() <= 1
    # Where the frequency is an ulp off, the table is off by what that makes of the position.
    assert (np.abs(table.astype(np.float64) - frozen) <= float32_error(case) + EPS).all()


@pytest.mark.parametrize("dim", [6, 34, 80, 128])
def test_the_power_form_is_that_of_rope(direct: Client, dim: int) -> None:
    case = Case(CASES["introduction_d8"].make, dim, (1.0,), "interleaved")
    wanted: dict[str, Query] = {"dim": dim, "arithmetic": "float32", "frequency_form": "power"}
    ours = asked(direct, SINUSOIDAL, **wanted, output="frequencies")["frequencies"]
    assert np.array_equal(ours, library_frequencies(case, "power"))
    rope = asked(direct, "/v1/encodings/rope", dim=dim, arithmetic="float32", output="frequencies")
    assert np.array_equal(ours, rope["frequencies"])
    table = asked(direct, SINUSOIDAL, **wanted, length=3000, layout="cos-sin")["encoding"]
    turned = asked(direct, "/v1/encodings/rope", dim=dim, arithmetic="float32", length=3000, columns="half")
    assert np.array_equal(table, np.concatenate([turned["cos"], turned["sin"]], axis=1))


def test_float32_arithmetic_is_added_too(direct: Client) -> None:
    x = np.zeros((4096, 64), np.float32)
    body = posted(direct, ADD, {"x": x}, arithmetic="float32", frequency_form="power")["x"]
    table = asked(direct, SINUSOIDAL, length=4096, dim=64, arithmetic="float32", frequency_form="power")["encoding"]
    exact = asked(direct, SINUSOIDAL, length=4096, dim=64)["encoding"]
    assert np.array_equal(body, table)
    assert 1e-5 < np.abs(table - exact).max() < 5e-4


def test_the_answer_says_which_arithmetic_it_was(direct: Client) -> None:
    shown = asked_in_json(direct, SINUSOIDAL, length=2, dim=4, arithmetic="float32")
    assert shown["parameters"]["arithmetic"] == "float32"
    assert shown["parameters"]["frequency_form"] == "exp-log"
    assert any("float32" in note for note in shown["notes"])
    assert asked_in_json(direct, SINUSOIDAL, length=2, dim=4)["notes"] == []


def test_a_form_without_its_arithmetic_is_refused(direct: Client) -> None:
    for query in ("frequency_form=power", "frequency_form=power&arithmetic=exact", "arithmetic=float32&base=0.5"):
        answer = direct.get(f"{SINUSOIDAL}?length=2&dim=4&{query}")
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["parameter"] == ("base" if "base" in query else "frequency_form")
