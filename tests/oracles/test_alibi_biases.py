"""ALiBi slopes and biases, against BLOOM, MPT and x-transformers, and against the paper's recursion."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_alibi import BIAS_HEADS, DTYPES, FAR, FAR_HEADS, HEAD_DIM, HEADS, KEYS, PADDED_HEADS, QUERIES
from tests.oracles import oracle_alibi
from tests.oracles.answers import Query, asked, asked_in_json, from_json, posted, posted_npy
from tests.oracles.exact import rounded, rounded_rows, ulps_apart

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


PRESETS: dict[str, dict[str, Query]] = {
    "bloom": {"form": "key-only", "arithmetic": "float32-powers"},
    "falcon": {"form": "key-only", "arithmetic": "bfloat16"},
    "mpt": {"form": "last-key", "arithmetic": "float32-reciprocals"},
    "x_transformers": {"form": "symmetric", "arithmetic": "float32"},
}
# PyTorch's float32 power may be an ulp from the rounded one (not where these files were made); bfloat16 hides it.
ULPS = {"bloom": 1, "falcon": 0, "mpt": 1, "x_transformers": 0}


def assert_theirs(ours: NDArray[np.float32], theirs: NDArray[np.float32], library: str, dtype: str = "float32") -> None:
    """Equal but for what PyTorch's power does to a slope, in ulp of the number format (2^16 or 2^13 float32 ulp)."""
    assert ours.shape == theirs.shape
    step = {"float32": 1, "bfloat16": 1 << 16, "float16": 1 << 13}[dtype]
    assert ulps_apart(ours + 0, theirs + 0).max() <= ULPS[library] * step


@pytest.mark.parametrize("library", ["bloom", "mpt", "x_transformers"])
@pytest.mark.parametrize("heads", HEADS)
def test_slopes_in_a_librarys_own_arithmetic(direct: Client, alibi: Numbers, library: str, heads: int) -> None:
    ours = asked(direct, SLOPES, heads=heads, arithmetic=PRESETS[library]["arithmetic"])["slopes"]
    assert_theirs(ours, alibi[f"{library}.{heads}.slopes"], library)


@pytest.mark.parametrize("heads", BIAS_HEADS)
def test_biases_in_a_librarys_own_arithmetic(direct: Client, alibi: Numbers, heads: int) -> None:
    for library in ("bloom", "mpt"):
        ours = asked(direct, BIAS, heads=heads, length=KEYS, **PRESETS[library])["bias"]
        assert_theirs(ours, alibi[f"{library}.{heads}.bias"], library)
    ours = asked(direct, BIAS, heads=heads, queries=QUERIES, keys=KEYS, **PRESETS["x_transformers"])["bias"]
    assert_theirs(ours, alibi[f"x_transformers.{heads}.bias"], "x_transformers")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", PADDED_HEADS)
def test_tokens_behind_padding(direct: Client, alibi: Numbers, heads: int, dtype: str) -> None:
    mask = {"attention_mask": alibi["mask"]}
    for library in ("bloom", "falcon"):
        ours = posted(direct, BIAS, mask, heads=heads, dtype=dtype, **PRESETS[library])["bias"].astype(np.float32)
        assert_theirs(ours, alibi[f"{library}.{heads}.padded.{dtype}"], library, dtype)
    scaled = posted(direct, BIAS, mask, heads=heads, dtype=dtype, head_dim=HEAD_DIM, **PRESETS["falcon"])["bias"]
    assert_theirs(scaled.astype(np.float32), alibi[f"falcon.{heads}.scaled.{dtype}"], "falcon", dtype)


@pytest.mark.parametrize("heads", PADDED_HEADS)
def test_scores_of_tokens_behind_padding(direct: Client, alibi: Numbers, heads: int) -> None:
    mask = alibi["mask"]
    x = np.random.default_rng(3).standard_normal((len(mask), heads, 2, mask.shape[1]), dtype=np.float32)
    for library in ("bloom", "falcon"):
        ours = posted(direct, ADD, {"x": x, "attention_mask": mask}, **PRESETS[library])["x"]
        theirs = x + alibi[f"{library}.{heads}.padded.float32"]
        assert np.abs(ours - theirs).max() <= 2 * EPS * np.abs(theirs).max()
        assert (ours == theirs).mean() > (0.99 if ULPS[library] == 0 else 0.5)


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


@pytest.mark.parametrize("heads", [5, 12])
def test_keras_hub_and_nemo_by_their_own_recursion(direct: Client, heads: int) -> None:
    """keras-hub: the last key at 0, one row a head, its maximum a parameter; NeMo: slopes times 1 / factor."""
    for bias_max in (8, 6):
        slopes = np.array([rounded(slope, "float32") for slope in oracle_alibi.slopes(heads, bias_max)], np.float32)
        theirs = slopes[:, None, None] * np.arange(1 - KEYS, 1, dtype=np.float32)
        chosen: dict[str, Query] = {"form": "last-key", "arithmetic": "float32", "alibi_bias_max": bias_max}
        assert np.array_equal(asked(direct, BIAS, heads=heads, length=KEYS, **chosen)["bias"], theirs)
        longer = (slopes * np.float32(1 / 3))[:, None, None] * np.arange(1 - KEYS, 1, dtype=np.float32)
        ours = asked(direct, BIAS, heads=heads, length=KEYS, interpolation_factor=3, **chosen)["bias"]
        assert np.array_equal(ours, longer)
