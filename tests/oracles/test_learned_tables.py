"""Learned tables of the running service against transformers, timm and PyTorch, and a trained model's own table."""

from typing import Any

import numpy as np
import pytest

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers, load
from tests.golden.make_learned import (
    CELLS,
    COLUMNS,
    CONVENTIONS,
    LONGER,
    NEW,
    PREFIX,
    QUANTILES,
    ROWS,
    SQUARE,
    TABLE,
    TOKENS,
    VIT,
    WIDE,
    interpolated,
    lengthened,
)
from tests.golden.make_minilm import whole_tables
from tests.oracles.answers import Array, asked, posted, posted_json, posted_npy
from tests.oracles.usages import proves

INITIAL, LOOKUP = "/v1/encodings/learned", "/v1/learned/lookup"
RESAMPLE, FACTORISED = "/v1/learned/resample", "/v1/learned/factorised"
OURS: dict[str, dict[str, str]] = {
    "bilinear": {"method": "bilinear"},
    "bicubic": {"method": "bicubic"},
    "bilinear.corners": {"method": "bilinear", "sampling": "align-corners"},
    "bicubic.corners": {"method": "bicubic", "sampling": "align-corners"},
    "bilinear.antialias": {"method": "bilinear", "antialias": "antialias"},
    "bicubic.antialias": {"method": "bicubic", "antialias": "antialias"},
    "bilinear.tenth": {"method": "bilinear", "ratio": "plus-tenth"},
    "bicubic.tenth": {"method": "bicubic", "ratio": "plus-tenth"},
    "bilinear.tenth.antialias": {"method": "bilinear", "ratio": "plus-tenth", "antialias": "antialias"},
    "bicubic.tenth.antialias": {"method": "bicubic", "ratio": "plus-tenth", "antialias": "antialias"},
}


def close_to(ours: Array, theirs: Array, table: Array) -> None:
    """PyTorch's float32 resizing errs by 6e-6 of the table (1e-5 with corners), its float64 by 1e-13."""
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    within = 1e-5 if ours.dtype == np.float32 else 1e-13
    assert np.abs(ours.astype(np.float64) - theirs).max() <= within * np.abs(table).max()


@proves(
    "encodings/learned",
    {name: name for name in ("bert", "gpt2", "opt", "bart", "roberta", "clip", "vit", "xlm", "detr")},
)
def test_tables_begin_as_the_models_do(direct: Client, learned: Numbers, usage: Usage, oracle: str) -> None:
    dim = 2048 if oracle == "xlm" else 64
    ours = asked(direct, INITIAL, dim=dim, seed=7, dtype="float64", **usage.parameters)["encoding"]
    assert len(ours) == learned[f"initial.{oracle}.rows"][0]
    # Kolmogorov and Smirnov: two samples of n each come apart by 1.95 sqrt(2 / n) once in a thousand times.
    theirs = learned[f"initial.{oracle}"]
    shares = np.searchsorted(np.sort(ours, axis=None), theirs) / ours.size
    assert np.abs(shares - QUANTILES).max() < 1.95 * np.sqrt(2 / ours.size)
    # And the right spread, which no other usage has by chance.
    assert np.abs(np.quantile(ours, QUANTILES) - theirs).max() < 0.06 * np.abs(theirs).max()


@proves("learned/lookup", {"bert": None, "opt": TOKENS, "roberta": TOKENS, "prophetnet": TOKENS})
def test_rows_are_those_that_the_model_looks_up(
    direct: Client, learned: Numbers, usage: Usage, oracle: Array | None
) -> None:
    if oracle is None:
        ours = posted(direct, LOOKUP, {"x": TABLE}, length=12, **usage.parameters)["encoding"]
    else:
        ours = posted(direct, LOOKUP, {"x": TABLE, "attention_mask": oracle}, **usage.parameters)["encoding"]
    np.testing.assert_array_equal(ours, learned[f"lookup.{usage.preset}"])


@proves("learned/factorised", {"detr": CELLS, "reformer": CELLS, "pix2struct": CELLS})
def test_factors_are_joined_as_the_model_does(
    direct: Client, learned: Numbers, usage: Usage, oracle: tuple[int, int]
) -> None:
    ours = posted(direct, FACTORISED, {"rows": ROWS, "columns": COLUMNS}, grid=oracle, **usage.parameters)["encoding"]
    np.testing.assert_array_equal(ours, learned[f"factors.{usage.preset}"])


@proves(
    "learned/resample",
    {
        "vit": ["vit"],
        "deit": ["deit"],
        "siglip": ["siglip"],
        "timm": ["timm", "dinov2-with-registers"],
        "dpt": ["dpt"],
        "qwen3-vl": ["qwen3-vl"],
        "siglip2": ["siglip2"],
    },
)
def test_tables_are_resized_as_the_model_does(
    direct: Client, learned: Numbers, usage: Usage, oracle: list[str]
) -> None:
    table = SQUARE[: 16 + PREFIX.get(usage.preset, 1)]
    ours = posted(direct, RESAMPLE, {"x": table}, grid=NEW, **usage.parameters)["x"]
    for model in oracle:
        close_to(ours, learned[f"resized.{model}"], table)


@proves("learned/resample", {"mae-decoder": "resized.mae-decoder"})
def test_maes_decoder_takes_its_grid_for_a_sequence(
    direct: Client, learned: Numbers, usage: Usage, oracle: str
) -> None:
    ours = posted(direct, RESAMPLE, {"x": SQUARE[:17]}, length=LONGER, **usage.parameters)["x"]
    close_to(ours, learned[oracle], SQUARE)


@proves("learned/resample", {"dino": "bicubic.tenth"})
def test_dino_says_a_scale_factor_of_a_tenth_more(direct: Client, learned: Numbers, usage: Usage, oracle: str) -> None:
    ours = posted(direct, RESAMPLE, {"x": VIT}, grid=WIDE, **usage.parameters)["x"]
    np.testing.assert_array_equal(ours[0], VIT[0])
    close_to(ours[1:], learned[f"interpolate.{oracle}"], VIT)


@proves("learned/resample", {"longformer": 4096})
def test_longformer_repeats_robertas_table(direct: Client, usage: Usage, oracle: int) -> None:
    """As its conversion does: positions from 2 on are filled with the old ones, again and again."""
    table = np.random.default_rng(2).standard_normal((514, 8)).astype(np.float32)
    longer = np.empty((oracle + 2, 8), np.float32)
    longer[:2] = table[:2]
    for start in range(2, oracle + 2, 512):
        longer[start : start + 512] = table[2:]
    ours = posted(direct, RESAMPLE, {"x": table}, length=oracle, **usage.parameters)["x"]
    np.testing.assert_array_equal(ours, longer)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_class_token_and_14_x_14_become_16_x_24(direct: Client, learned: Numbers, name: str) -> None:
    ours = posted(direct, RESAMPLE, {"x": VIT}, grid=WIDE, prefix=1, **OURS[name])["x"]
    assert ours.shape == (385, 3)
    np.testing.assert_array_equal(ours[0], VIT[0])
    close_to(ours[1:], learned[f"interpolate.{name}"], VIT)


@pytest.mark.parametrize("mode", ["linear", "bicubic"])
def test_minilms_first_positions_become_more(client: Client, learned: Numbers, mode: str) -> None:
    places = load("minilm/tables")["positions"][:, :48]
    ours = posted_npy(client, RESAMPLE, places, length=128, method=mode)
    close_to(ours, learned[f"minilm.{mode}"], places)
    as_json = posted_json(client, RESAMPLE, {"tensors": {"x": places.tolist()}}, length=128, method=mode)["x"]
    np.testing.assert_array_equal(as_json, ours)


@pytest.mark.oracle
@pytest.mark.parametrize("how", [{}, {"align_corners": True}])
@pytest.mark.parametrize("mode", ["linear", "bicubic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_minilms_512_positions_become_2048(client: Client, mode: str, how: dict[str, Any], dtype: Any) -> None:
    table = whole_tables()[1].astype(dtype)
    assert table.shape == (512, 384)
    sampling = "align-corners" if how else "half-pixel"
    ours = posted_npy(client, RESAMPLE, table, length=2048, method=mode, sampling=sampling)
    close_to(ours, lengthened(table, 2048, mode=mode, **how), table)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CONVENTIONS)
@pytest.mark.parametrize(
    ("old", "new"), [((14, 14), (7, 5)), ((5, 9), (5, 13)), ((3, 4), (30, 1)), ((20, 31), (3, 4)), ((1, 6), (6, 1))]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_grids_of_every_convention(
    direct: Client, old: tuple[int, int], new: tuple[int, int], name: str, dtype: Any
) -> None:
    table = np.random.default_rng(3).standard_normal((old[0] * old[1], 5)).astype(dtype)
    ours = posted(direct, RESAMPLE, {"x": table}, old_grid=old, grid=new, **OURS[name])["x"]
    close_to(ours, interpolated(table, old, new, **CONVENTIONS[name]), table)
