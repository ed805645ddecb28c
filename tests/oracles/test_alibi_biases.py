"""ALiBi slopes and biases, against BLOOM, MPT and x-transformers, and against the paper's recursion."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine import by_key
from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_alibi import BIAS_HEADS, DTYPES, FAR, FAR_HEADS, HEADS, KEYS, PADDED_HEADS, QUERIES
from tests.oracles import oracle_alibi
from tests.oracles.answers import Query, asked, asked_in_json, from_json, posted, posted_npy
from tests.oracles.exact import rounded, rounded_rows, ulps_apart
from tests.oracles.usages import proves

SLOPES = "/v1/biases/alibi-slopes"
BIAS = "/v1/biases/alibi"
ADD = "/v1/apply/alibi"
EPS = 2.0**-24

LIBRARIES = ("bloom", "mpt", "x_transformers")


def relative_error(library: str, heads: int) -> float:
    """What a library's slopes can differ from the real numbers by, relative to them.

    BLOOM rounds the first slope to float32 and raises it to powers up to the head count, which multiplies
    that rounding (5.0e-7 at 112 heads); MPT takes one float32 power and one reciprocal; x-transformers
    works in float64.
    """
    below = 1 << (heads.bit_length() - 1)
    return {"bloom": below + 2, "mpt": 4, "x_transformers": 1.01}[library] * EPS


def exact_slopes(heads: int) -> NDArray[np.float64]:
    return np.array([rounded(slope, "float64") for slope in oracle_alibi.slopes(heads)])


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_library_agrees_with_the_papers_recursion(alibi: Numbers, library: str, heads: int) -> None:
    relative = alibi[f"{library}.{heads}.slopes"] / exact_slopes(heads) - 1
    assert np.abs(relative).max() <= (0 if heads <= 8 else relative_error(library, heads))


@pytest.mark.parametrize("heads", HEADS)
def test_the_service_agrees_with_the_libraries(direct: Client, alibi: Numbers, heads: int) -> None:
    ours = asked(direct, SLOPES, heads=heads)["slopes"].astype(np.float64)
    assert ours.shape == (heads,)
    for library in LIBRARIES:
        relative = ours / alibi[f"{library}.{heads}.slopes"] - 1
        assert np.abs(relative).max() <= relative_error(library, heads) + EPS


@pytest.mark.parametrize("heads", [*HEADS, 5, 33])
@pytest.mark.parametrize("bias_max", [8, 5.5])
def test_slopes_are_the_papers_recursion_rounded_once(direct: Client, heads: int, bias_max: float) -> None:
    exact = oracle_alibi.slopes(heads, bias_max)
    for dtype in ("float32", "float16", "bfloat16"):
        ours = asked(direct, SLOPES, heads=heads, alibi_bias_max=bias_max, dtype=dtype)
        assert ours["slopes"].tolist() == [rounded(slope, dtype) for slope in exact]


def test_slopes_of_head_counts_that_are_no_powers_of_two(direct: Client) -> None:
    twelve = asked(direct, SLOPES, heads=12)["slopes"]
    assert twelve[:8].tolist() == [2.0**-power for power in range(1, 9)]
    assert twelve[8:] == pytest.approx([0.707106781, 0.353553391, 0.176776695, 0.088388348], abs=1e-8)
    assert asked(direct, SLOPES, heads=6)["slopes"].tolist() == [
        0.25,
        0.0625,
        0.015625,
        2**-8,
        0.5,
        0.125,
    ]
    assert asked(direct, SLOPES, heads=3)["slopes"].tolist() == [0.0625, 0.00390625, 0.25]
    assert asked(direct, SLOPES, heads=1)["slopes"].tolist() == [0.00390625]
    forty = asked(direct, SLOPES, heads=40)["slopes"]
    assert forty[[31, 32, 39]] == pytest.approx([0.00390625, 0.917004043, 0.272626933], abs=1e-8)


@pytest.mark.parametrize("heads", BIAS_HEADS)
def test_each_form_is_a_librarys(direct: Client, alibi: Numbers, heads: int) -> None:
    last_query = asked(direct, BIAS, heads=heads, queries=1, keys=KEYS)["bias"]
    key_only = asked(direct, BIAS, heads=heads, length=KEYS, form="key-only")["bias"]
    symmetric = asked(direct, BIAS, heads=heads, queries=QUERIES, keys=KEYS, form="symmetric")["bias"]
    for library, ours in {"mpt": last_query, "bloom": key_only, "x_transformers": symmetric}.items():
        theirs = alibi[f"{library}.{heads}.bias"]
        assert ours.shape == theirs.shape
        # One float32 product more than the slopes on either side.
        assert (np.abs(ours - theirs) <= np.abs(theirs) * (relative_error(library, heads) + 3 * EPS)).all()


@pytest.mark.parametrize("form", ["relative", "symmetric", "key-only"])
@pytest.mark.parametrize("offset", [None, 0, 9, -2])
def test_biases_are_the_papers_rounded_once(direct: Client, form: str, offset: int | None) -> None:
    heads, queries, keys = 7, 3, 5
    exact = oracle_alibi.bias(heads, queries, keys, offset, form=form)
    placed = {} if offset is None else {"offset": offset}
    for dtype in ("float32", "bfloat16", "float16"):
        ours = asked(direct, BIAS, heads=heads, queries=queries, keys=keys, form=form, dtype=dtype, **placed)
        rows = 1 if form == "key-only" else queries
        assert ours["bias"].shape == (heads, rows, keys)
        for head in range(heads):
            assert np.array_equal(ours["bias"][head], rounded_rows(exact[head][:rows], dtype))


def test_one_decoding_step_sees_the_last_key_at_distance_zero(direct: Client) -> None:
    shown = asked_in_json(direct, BIAS, heads=2, queries=1, keys=4)
    assert shown["tensors"]["bias"]["axes"] == ["head", "query", "key"]
    assert from_json(shown["tensors"]["bias"])[0].tolist() == [[-0.1875, -0.125, -0.0625, 0]]
    key_only = asked(direct, BIAS, heads=2, queries=1, keys=4, form="key-only")
    assert key_only["bias"][0].tolist() == [[0, 0.0625, 0.125, 0.1875]]
    symmetric = asked(direct, BIAS, heads=2, length=3, form="symmetric")
    assert symmetric["bias"][0, 0].tolist() == [0, -0.0625, -0.125]


def test_softmax_does_not_see_the_difference_between_key_only_and_relative(direct: Client) -> None:
    scores = np.random.default_rng(19).standard_normal((2, 6, 4, 9))
    weights = []
    for form in ("relative", "key-only"):
        x = posted(direct, ADD, {"x": scores}, form=form)["x"]
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        weights.append(powers / powers.sum(axis=-1, keepdims=True))
    assert weights[0] == pytest.approx(weights[1], abs=1e-14)


@pytest.mark.parametrize(("form", "offset"), [("relative", None), ("symmetric", 2), ("key-only", None)])
def test_scores_get_the_bias_of_their_head_query_and_key(direct: Client, form: str, offset: int | None) -> None:
    scores = np.random.default_rng(23).standard_normal((2, 3, 4, 5), dtype=np.float32)
    placed = {} if offset is None else {"offset": offset}
    added = posted_npy(direct, ADD, scores, form=form, **placed)
    exact = oracle_alibi.bias(3, 4, 5, offset, form=form)
    bias = np.array([rounded_rows(head, "float32") for head in exact]).astype(np.float32)
    assert added.dtype == np.float32
    assert np.array_equal(added, scores + bias)


PRESETS = {
    name.replace("-", "_"): dict(by_key("apply", "alibi").presets[name])
    for name in ("bloom", "falcon", "mpt", "x-transformers")
}
# PyTorch's float32 power may be an ulp from the rounded one (not where these files were made); bfloat16 hides it.
ULPS = {"bloom": 1, "falcon": 0, "mpt": 1, "x_transformers": 0}


def assert_theirs(ours: NDArray[np.float32], theirs: NDArray[np.float32], library: str, dtype: str = "float32") -> None:
    """Equal but for what PyTorch's power does to a slope, in ulp of the number format (2^16 or 2^13 float32 ulp)."""
    assert ours.shape == theirs.shape
    step = {"float32": 1, "bfloat16": 1 << 16, "float16": 1 << 13}[dtype]
    assert ulps_apart(ours + 0, theirs + 0).max() <= ULPS[library] * step


@proves("biases/alibi-slopes", {"bloom": "bloom", "mpt": "mpt", "x-transformers": "x_transformers"})
@pytest.mark.parametrize("heads", HEADS)
def test_slopes_in_a_librarys_own_arithmetic(
    direct: Client, alibi: Numbers, heads: int, usage: Usage, oracle: str
) -> None:
    ours = asked(direct, SLOPES, heads=heads, **usage.parameters)["slopes"]
    assert_theirs(ours, alibi[f"{oracle}.{heads}.slopes"], oracle)


@proves("biases/alibi-slopes", {"falcon": "falcon"})
@pytest.mark.parametrize("heads", PADDED_HEADS)
def test_falcons_slopes(direct: Client, alibi: Numbers, heads: int, usage: Usage, oracle: str) -> None:
    ours = asked(direct, SLOPES, heads=heads, **usage.parameters)["slopes"]
    assert np.array_equal(ours, alibi[f"{oracle}.{heads}.padded.float32"][0, :, 0, 1])


@proves("biases/alibi", {"bloom": "padded", "falcon": "scaled"})
@pytest.mark.parametrize("heads", PADDED_HEADS)
def test_biases_of_a_preset_behind_padding(
    direct: Client, alibi: Numbers, heads: int, usage: Usage, oracle: str
) -> None:
    for dtype in DTYPES:
        mask = {"attention_mask": alibi["mask"]}
        ours = posted(direct, BIAS, mask, heads=heads, dtype=dtype, **usage.parameters)["bias"].astype(np.float32)
        assert_theirs(ours, alibi[f"{usage.preset}.{heads}.{oracle}.{dtype}"], usage.preset, dtype)


@proves("biases/alibi", {"mpt": "mpt", "x-transformers": "x_transformers"})
@pytest.mark.parametrize("heads", BIAS_HEADS)
def test_biases_of_a_preset(direct: Client, alibi: Numbers, heads: int, usage: Usage, oracle: str) -> None:
    sizes = {"queries": QUERIES, "keys": KEYS}
    ours = asked(direct, BIAS, heads=heads, **sizes, **usage.parameters)["bias"]
    assert_theirs(ours, alibi[f"{oracle}.{heads}.bias"], oracle)


@proves("apply/alibi", {"mpt": "mpt", "x-transformers": "x_transformers"})
@pytest.mark.parametrize("heads", BIAS_HEADS)
def test_sums_of_a_preset(direct: Client, alibi: Numbers, heads: int, usage: Usage, oracle: str) -> None:
    x = np.random.default_rng(3).standard_normal((2, heads, QUERIES, KEYS), dtype=np.float32)
    ours = posted(direct, ADD, {"x": x}, **usage.parameters)["x"]
    theirs = x + alibi[f"{oracle}.{heads}.bias"]
    assert np.abs(ours - theirs).max() <= ULPS[oracle] * 4 * EPS * np.abs(theirs).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", PADDED_HEADS)
def test_falcons_bias_before_its_scores_are_scaled(direct: Client, alibi: Numbers, heads: int, dtype: str) -> None:
    mask = {"attention_mask": alibi["mask"]}
    ours = posted(direct, BIAS, mask, heads=heads, dtype=dtype, **PRESETS["falcon"])["bias"]
    assert_theirs(ours.astype(np.float32), alibi[f"falcon.{heads}.padded.{dtype}"], "falcon", dtype)


@proves("apply/alibi", {"bloom": 0.5, "falcon": 0.99})
@pytest.mark.parametrize("heads", PADDED_HEADS)
def test_scores_of_tokens_behind_padding(
    direct: Client, alibi: Numbers, heads: int, usage: Usage, oracle: float
) -> None:
    """Nearly all are equal where PyTorch's power is the rounded one, and half at least elsewhere."""
    mask = alibi["mask"]
    x = np.random.default_rng(3).standard_normal((len(mask), heads, 2, mask.shape[1]), dtype=np.float32)
    ours = posted(direct, ADD, {"x": x, "attention_mask": mask}, **usage.parameters)["x"]
    theirs = x + alibi[f"{usage.preset}.{heads}.padded.float32"]
    assert np.abs(ours - theirs).max() <= 2 * EPS * np.abs(theirs).max()
    assert (ours == theirs).mean() > oracle


@pytest.mark.parametrize("heads", PADDED_HEADS)
def test_distances_between_counted_tokens(direct: Client, alibi: Numbers, heads: int) -> None:
    ours = posted(direct, BIAS, {"attention_mask": alibi["mask"]}, heads=heads, **PRESETS["x_transformers"])["bias"]
    assert_theirs(ours, alibi[f"x_transformers.{heads}.counted"], "x_transformers")


def test_falcon_where_bfloat16_does_not_hold_the_positions(direct: Client, alibi: Numbers) -> None:
    ours = asked(direct, BIAS, heads=FAR_HEADS, length=FAR, **PRESETS["falcon"])["bias"]
    theirs = alibi[f"falcon.{FAR_HEADS}.far"]
    assert_theirs(ours[None], theirs, "falcon")
    exact = asked(direct, BIAS, heads=FAR_HEADS, length=FAR, form="key-only")["bias"]
    assert np.abs(exact - theirs[0]).max() == 1  # so far apart are the two arithmetics


def test_heads_without_a_bias(direct: Client, alibi: Numbers) -> None:
    placed: dict[str, Query] = {"heads": 5, "alibi_num_heads": 3, "queries": QUERIES, "keys": KEYS}
    ours = asked(direct, BIAS, **placed, **PRESETS["x_transformers"])["bias"]
    assert_theirs(ours, alibi["x_transformers.3_of_5.bias"], "x_transformers")
    assert not ours[3:].any()


def float32_slopes(heads: int, bias_max: float = 8) -> NDArray[np.float32]:
    """As Python floats make them, and a float32 array takes them."""
    return np.array([rounded(slope, "float32") for slope in oracle_alibi.slopes(heads, bias_max)], np.float32)


def reciprocals(heads: int) -> NDArray[np.float32]:
    """llm-foundry's: of the next power of two, every second one first."""
    above = 1 << (heads - 1).bit_length()
    powers = [rounded(mpmath.mpf(2) ** mpmath.mpf(8 * j / above), "float32") for j in range(1, above + 1)]
    slopes: NDArray[np.float32] = np.float32(1) / np.array(powers, np.float32)
    return slopes if above == heads else np.concatenate([slopes[1::2], slopes[::2]])[:heads]


def ahead(keys: int, last: int) -> NDArray[np.float32]:
    return np.arange(keys, dtype=np.float32)[None] - np.float32(last)


def apart(queries: int, keys: int) -> NDArray[np.float32]:
    i, j = np.arange(keys - queries, keys, dtype=np.float32)[:, None], np.arange(keys, dtype=np.float32)
    distances: NDArray[np.float32] = -np.abs(j - i)
    return distances


# Libraries that are not run here, in numpy's float32: slopes of so many heads, and what they are multiplied by.
BY_LOOPS: dict[str, tuple[Callable[[int], NDArray[np.float32]], NDArray[np.float32]]] = {
    "fairseq": (float32_slopes, ahead(KEYS, 0)),
    "keras-hub": (float32_slopes, ahead(KEYS, KEYS - 1)),
    "mlx": (float32_slopes, apart(QUERIES, KEYS)),
    "llm-foundry-bidirectional": (reciprocals, apart(QUERIES, KEYS)),
    "nemo-interpolated": (lambda heads: float32_slopes(heads) * np.float32(1 / 4), ahead(KEYS, KEYS - 1)),
}


@proves("biases/alibi", BY_LOOPS)
@pytest.mark.parametrize("heads", [5, 8, 12, 71])
def test_biases_by_a_librarys_own_steps(direct: Client, heads: int, usage: Usage, oracle: Any) -> None:
    slopes, multipliers = oracle
    ours = asked(direct, BIAS, heads=heads, queries=QUERIES, keys=KEYS, **usage.parameters)["bias"]
    assert np.array_equal(ours, slopes(heads)[:, None, None] * multipliers)


@proves("apply/alibi", {name: BY_LOOPS[name] for name in ("fairseq", "keras-hub", "mlx")})
@pytest.mark.parametrize("heads", [5, 71])
def test_sums_by_a_librarys_own_steps(direct: Client, heads: int, usage: Usage, oracle: Any) -> None:
    slopes, multipliers = oracle
    x = np.random.default_rng(3).standard_normal((2, heads, QUERIES, KEYS), dtype=np.float32)
    ours = posted(direct, ADD, {"x": x}, **usage.parameters)["x"]
    assert np.array_equal(ours, x + slopes(heads)[:, None, None] * multipliers)


@pytest.mark.parametrize("bias_max", [6, 16])
@pytest.mark.parametrize("heads", [5, 12])
def test_keras_hubs_maximum(direct: Client, heads: int, bias_max: int) -> None:
    """Its first slope is 2^-(2^-(log2 n - log2 B)), which is 2^(-B / n)."""
    chosen: dict[str, Query] = {**by_key("biases", "alibi").presets["keras-hub"], "alibi_bias_max": bias_max}
    ours = asked(direct, BIAS, heads=heads, length=KEYS, **chosen)["bias"]
    assert np.array_equal(ours, float32_slopes(heads, bias_max)[:, None, None] * ahead(KEYS, KEYS - 1))
