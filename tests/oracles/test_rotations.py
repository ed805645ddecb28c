"""Vectors turned by the service, against the rotations of four models and against the paper's own loops."""

from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_rope import ROTATIONS, Rotation
from tests.oracles import oracle_rope
from tests.oracles.answers import Query, posted, posted_json, posted_npy
from tests.oracles.exact import rounded_rows
from tests.oracles.two_stage import of_case
from tests.oracles.usages import proves

ROTATE = "/v1/apply/rope"
EPS = 2.0**-24

Table = NDArray[np.float64]


def exact_tables(positions: list[int], width: int) -> tuple[Table, Table]:
    """cos and sin (positions, pairs) as the float64 nearest to the real numbers."""
    rows = [oracle_rope.cos_sin(position, width) for position in positions]
    return rounded_rows([cos for cos, _ in rows], "float64"), rounded_rows([sin for _, sin in rows], "float64")


def pairs_of(case: Rotation, x: NDArray[Any]) -> tuple[Table, Table]:
    """The first and the second channels of all pairs, the length axis last but one."""
    heads_first = x if case.axes == "heads-length" else np.swapaxes(x, 1, 2)
    turned = heads_first[..., : case.rotary_dim].astype(np.float64)
    if case.pairing == "half":
        return turned[..., : case.rotary_dim // 2], turned[..., case.rotary_dim // 2 :]
    return turned[..., 0::2], turned[..., 1::2]


def parameters(case: Rotation) -> dict[str, Query]:
    """The service's parameters for a model's rotation."""
    given: dict[str, Query] = {"pairing": case.pairing, "axes": case.axes}
    if case.rotary_dim != case.head_dim:
        given["rotary_dim"] = case.rotary_dim
    if list(case.positions) == list(range(case.positions[0], case.positions[-1] + 1)):
        return {**given, "offset": case.positions[0]}
    return {**given, "positions": list(case.positions)}


@pytest.mark.parametrize("name", ROTATIONS)
def test_the_library_rotates_by_its_own_tables(rope: Numbers, name: str) -> None:
    case, frozen = ROTATIONS[name], of_case(rope, f"rotation.{name}")
    cos, sin = frozen["cos"].astype(np.float64), frozen["sin"].astype(np.float64)
    for tensor in ("q", "k"):
        one, two = pairs_of(case, frozen[tensor])
        turned_one, turned_two = pairs_of(case, frozen[f"{tensor}_rotated"])
        bound = 3 * EPS * (np.abs(one) + np.abs(two))
        assert (np.abs(turned_one - (one * cos - two * sin)) <= bound).all()
        assert (np.abs(turned_two - (two * cos + one * sin)) <= bound).all()


@pytest.mark.parametrize("name", ROTATIONS)
def test_the_service_rotates_as_the_library_does(direct: Client, rope: Numbers, name: str) -> None:
    case, frozen = ROTATIONS[name], of_case(rope, f"rotation.{name}")
    answers = posted(direct, ROTATE, {"q": frozen["q"], "k": frozen["k"]}, **parameters(case))
    assert answers.keys() == {"q", "k"}
    cos, sin = exact_tables(list(case.positions), case.rotary_dim)
    # What the library's float32 tables differ from the real numbers by is known entry by entry; beyond
    # that, both sides may err by three float32 roundings (two products and a sum), ours by the rounding of
    # the tables too.
    cos_error, sin_error = np.abs(cos - frozen["cos"]), np.abs(sin - frozen["sin"])
    for tensor in ("q", "k"):
        assert answers[tensor].dtype == np.float32
        assert answers[tensor].shape == frozen[tensor].shape
        one, two = (np.abs(channels) for channels in pairs_of(case, frozen[tensor]))
        ours, theirs = pairs_of(case, answers[tensor]), pairs_of(case, frozen[f"{tensor}_rotated"])
        rounding = 7 * EPS * (one + two)
        assert (np.abs(ours[0] - theirs[0]) <= rounding + one * cos_error + two * sin_error).all()
        assert (np.abs(ours[1] - theirs[1]) <= rounding + two * cos_error + one * sin_error).all()
        untouched = slice(case.rotary_dim, None)
        assert np.array_equal(answers[tensor][..., untouched], frozen[tensor][..., untouched])


@pytest.mark.parametrize("name", ROTATIONS)
def test_the_service_rotates_by_the_exact_tables(direct: Client, rope: Numbers, name: str) -> None:
    case, frozen = ROTATIONS[name], of_case(rope, f"rotation.{name}")
    answers = posted(direct, ROTATE, {"q": frozen["q"], "k": frozen["k"]}, **parameters(case))
    cos, sin = exact_tables(list(case.positions), case.rotary_dim)
    for tensor in ("q", "k"):
        one, two = pairs_of(case, frozen[tensor])
        turned_one, turned_two = pairs_of(case, answers[tensor])
        bound = 3 * EPS * (np.abs(one) + np.abs(two))
        assert (np.abs(turned_one - (one * cos - two * sin)) <= bound).all()
        assert (np.abs(turned_two - (two * cos + one * sin)) <= bound).all()


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [2, 6, 10])
@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_float64_vectors_turn_as_the_papers_loops_say(
    direct: Client, pairing: str, rotary_dim: int, direction: str
) -> None:
    q = np.random.default_rng(5).standard_normal((3, 10))
    turned = posted_npy(
        direct, ROTATE, q, pairing=pairing, rotary_dim=rotary_dim, offset=8191, base=500, direction=direction
    )
    assert turned.dtype == np.float64
    for row, x in enumerate(q):
        exact = oracle_rope.rotate(
            x.tolist(), 8191 + row, base=500, pairing=pairing, rotary_dim=rotary_dim, direction=direction
        )
        largest = float(np.abs(x).max())
        assert max(abs(float(mpmath.mpf(ours) - real)) for ours, real in zip(turned[row], exact, strict=True)) <= (
            8 * 2.0**-53 * largest
        )


def test_the_known_vectors(direct: Client) -> None:
    half = posted_json(direct, ROTATE, {"tensors": {"q": [1, 2, 3, 4]}}, offset=1, dtype="float64")
    assert half["q"] == pytest.approx([-1.984110649, 1.959900667, 2.462377902, 4.019799668], abs=1e-9)
    pairs = posted_json(
        direct, ROTATE, {"tensors": {"q": [1, 2, 3, 4]}}, offset=1, dtype="float64", pairing="interleaved"
    )
    assert pairs["q"] == pytest.approx([-1.142639664, 1.922075597, 2.959850668, 4.029799502], abs=1e-9)
    for answer in (half, pairs):
        assert np.linalg.norm(answer["q"]) == pytest.approx(5.477225575, abs=1e-9)
    partial = posted_json(
        direct,
        ROTATE,
        {"tensors": {"q": [1, 2, 3, 4, 5, 6, 7, 8]}},
        offset=1,
        dtype="float64",
        partial_rotary_factor=0.5,
    )
    expected = [-1.984110649, 1.959900667, 2.462377902, 4.019799668, 5, 6, 7, 8]
    assert partial["q"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_scores_depend_on_the_distance_alone_and_norms_stay(direct: Client, pairing: str) -> None:
    generator = np.random.default_rng(11)
    q, k = generator.standard_normal((2, 1, 3, 1, 26))
    rows = {}
    for position in (0, 5, 4096, 4101):
        rows[position] = posted(direct, ROTATE, {"q": q, "k": k}, pairing=pairing, offset=position)
    near = np.sum(rows[5]["q"] * rows[0]["k"], axis=-1)
    far = np.sum(rows[4101]["q"] * rows[4096]["k"], axis=-1)
    scale = np.linalg.norm(q, axis=-1) * np.linalg.norm(k, axis=-1)
    assert (np.abs(near - far) <= 1e-12 * scale).all()
    assert (np.abs(near - np.sum(q * k, axis=-1)) > 1e-3 * scale).any()
    assert np.linalg.norm(rows[4101]["q"], axis=-1) == pytest.approx(np.linalg.norm(q, axis=-1), rel=1e-14)


def test_turning_back_gives_the_vectors_again(direct: Client) -> None:
    q = np.random.default_rng(13).standard_normal((2, 3, 4, 8))
    there = posted(direct, ROTATE, {"q": q}, offset=77, axes="length-heads")
    back = posted(direct, ROTATE, there, offset=77, axes="length-heads", direction="inverse")
    assert np.abs(there["q"] - q).max() > 0.1
    assert np.abs(back["q"] - q).max() <= 1e-14


def test_positions_of_each_sequence_in_the_body(direct: Client) -> None:
    q = np.random.default_rng(17).standard_normal((2, 3, 4, 6))
    positions = np.array([[0, 1, 2, 3], [9, 7, 4095, -2]], dtype=np.int64)
    turned = posted(direct, ROTATE, {"q": q, "positions": positions})
    for batch in range(2):
        for row, position in enumerate(positions[batch].tolist()):
            alone = posted(direct, ROTATE, {"q": q[batch, :, row : row + 1]}, offset=position)
            assert np.array_equal(turned["q"][batch, :, row : row + 1], alone["q"])


@proves("apply/rope", {"Llama, Mistral, Qwen, Gemma and most models in Hugging Face form": "llama"})
def test_a_usage_turns_as_its_library_does(direct: Client, rope: Numbers, usage: Usage, oracle: str) -> None:
    case, frozen = ROTATIONS[oracle], of_case(rope, f"rotation.{oracle}")
    named = {**parameters(case), **usage.parameters}
    ours = posted(direct, ROTATE, {"q": frozen["q"], "k": frozen["k"]}, **named)
    for name in ("q", "k"):
        # Their float32 angles, at positions below 8, then two products and a sum.
        bound = (8 * 3 + 6) * EPS * np.abs(frozen[name]).max() * 2
        assert np.abs(ours[name] - frozen[f"{name}_rotated"]).max() <= bound
