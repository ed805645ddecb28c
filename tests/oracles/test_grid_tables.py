"""Tables on grids against transformers, diffusers, timm, positional-encodings, and loops of code that is no library."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from service.engine.scheme import Usage
from tests.clients import Client
from tests.golden.frozen import Numbers
from tests.golden.make_grids import BOXES, CASES, MASK, SHARES
from tests.oracles import oracle_grids
from tests.oracles.answers import asked, posted
from tests.oracles.exact import rounded_rows, ulps_apart
from tests.oracles.oracle_grids import Grid, Rows
from tests.oracles.usages import proves

Query = Mapping[str, str]
ULP = 2.0**-23
TABLES = {
    "encodings/sinusoidal-2d": {
        "rt-detr": ("rt_detr", "d_fine", "aimv2"),
        "mae": ("mae",),
        "granite-docling": ("granite_docling",),
        "diffusers": ("diffusers", "diffusers_scaled"),
        "stable-diffusion-3": ("stable_diffusion_3",),
        "omdet-turbo": ("omdet_turbo",),
        "timm": ("timm",),
        "timm-interleaved": ("timm_interleaved",),
        "timm-reversed": ("timm_reversed",),
        "positional-encodings": (
            "positional_encodings_2d",
            "positional_encodings_2d_cut",
            "positional_encodings_2d_odd",
        ),
        "positional-encodings-permute": ("positional_encodings_2d_permuted",),
    },
    "encodings/sinusoidal-3d": {
        "diffusers": ("diffusers_3d",),
        "cogvideox": ("cogvideox",),
        "positional-encodings": ("positional_encodings_3d", "positional_encodings_3d_cut"),
        "positional-encodings-permute": ("positional_encodings_3d_permuted",),
    },
    "encodings/detr": {
        "detr": (
            "detr",
            "conditional_detr",
            "table_transformer",
            "maskformer",
            "mask2former",
            "oneformer",
            "sam2",
            "sam3",
        ),
        "detr-module": ("detr_module",),
        "deformable-detr": ("deformable_detr",),
        "dab-detr": ("dab_detr",),
        "grounding-dino": ("grounding_dino", "mm_grounding_dino"),
        "detr-not-normalized": ("detr_not_normalized",),
    },
}


def check(ours: NDArray[np.float32], table: NDArray[np.floating], *, exact_angles: bool, farthest: float) -> None:
    """Equal to a library's table but for the last roundings.

    With angles in float64 a value may round another way at a tie. In float32 the library's power is within 2 ulp of the
    power, so an angle within 3 ulp of ours; sine and cosine are within an ulp where the angles are the same.
    """
    assert ours.shape == table.shape
    if exact_angles:
        assert ulps_apart(ours, table.astype(np.float32)).max() <= 1
    else:
        assert np.abs(ours.astype(np.float64) - table).max() <= 3 * ULP * farthest + ULP
        assert (ours == table).mean() > 0.85


def grid_table(client: Client, scheme: str, usage: Usage, query: Query) -> NDArray[np.float32]:
    return asked(client, f"/v1/encodings/{scheme}", **{**usage.parameters, **query})["encoding"]


def check_grid(client: Client, scheme: str, usage: Usage, cases: tuple[str, ...], numbers: Numbers) -> None:
    for name in cases:
        case = CASES[name]
        ours = grid_table(client, scheme, usage, case.query)
        check(ours, numbers[f"{name}.table"], exact_angles=case.exact_angles, farthest=5.0)


@proves("encodings/sinusoidal-2d", TABLES["encodings/sinusoidal-2d"])
def test_a_usage_in_two_axes_is_its_librarys(
    direct: Client, grids: Numbers, usage: Usage, oracle: tuple[str, ...]
) -> None:
    check_grid(direct, "sinusoidal-2d", usage, oracle, grids)


@proves("encodings/sinusoidal-3d", TABLES["encodings/sinusoidal-3d"])
def test_a_usage_in_three_axes_is_its_librarys(
    direct: Client, grids: Numbers, usage: Usage, oracle: tuple[str, ...]
) -> None:
    check_grid(direct, "sinusoidal-3d", usage, oracle, grids)


Loops = Callable[[Grid, int], Rows]


@proves(
    "encodings/sinusoidal-2d",
    {
        "moco": oracle_grids.moco,
        "big-vision": oracle_grids.big_vision,
        "tensor2tensor": oracle_grids.tensor2tensor,
        "mae": oracle_grids.mae,
        "rt-detr": oracle_grids.h_first,
    },
)
@pytest.mark.parametrize("grid", [(3, 5), (7, 2), (1, 4)])
def test_a_usage_in_two_axes_is_the_loops_of_its_code(direct: Client, usage: Usage, oracle: Loops, grid: Grid) -> None:
    for dim in (24, 8):
        exact = {"grid": ",".join(map(str, grid)), "dim": str(dim), "arithmetic": "exact"}
        assert np.array_equal(
            grid_table(direct, "sinusoidal-2d", usage, exact).reshape(-1, dim),
            rounded_rows(oracle(grid, dim), "float32"),
        )
        own = grid_table(direct, "sinusoidal-2d", usage, {"grid": exact["grid"], "dim": str(dim)}).reshape(-1, dim)
        assert np.abs(own - rounded_rows(oracle(grid, dim), "float64")).max() <= 3 * ULP * 7 + ULP


@proves(
    "encodings/sinusoidal-3d",
    {
        "v-jepa": oracle_grids.v_jepa,
        "v-jepa-uniform-power": oracle_grids.v_jepa_uniform,
        "prithvi": oracle_grids.prithvi,
        "tensor2tensor": oracle_grids.tensor2tensor,
    },
)
@pytest.mark.parametrize("grid", [(2, 3, 5), (4, 1, 2)])
def test_a_usage_in_three_axes_is_the_loops_of_its_code(
    direct: Client, usage: Usage, oracle: Loops, grid: Grid
) -> None:
    for dim in (16, 32):
        ours = grid_table(direct, "sinusoidal-3d", usage, {"grid": ",".join(map(str, grid)), "dim": str(dim)})
        assert np.array_equal(ours.reshape(-1, dim), rounded_rows(oracle(grid, dim), "float32"))


@proves("encodings/detr", TABLES["encodings/detr"])
def test_a_usage_of_a_feature_map_is_its_librarys(
    direct: Client, grids: Numbers, usage: Usage, oracle: tuple[str, ...]
) -> None:
    for name in oracle:
        query = {**usage.parameters, **CASES[name].query}
        ours = posted(direct, "/v1/encodings/detr", {"mask": MASK}, **query)["encoding"]
        # A line without a pixel has the position (0 + offset) / eps * scale.
        farthest = 3.2e6 if "offset" in usage.parameters else 6.3
        table = grids[f"{name}.table"]
        check(ours, table, exact_angles=False, farthest=farthest)
        if "channel_axis" in usage.parameters:
            continue
        seen = MASK.reshape(3, -1)
        assert np.abs(ours[seen].astype(np.float64) - table[seen]).max() <= 3 * ULP * 6.3 + ULP


@proves(
    "encodings/detr-boxes",
    {
        "dab-detr": {
            "dab_detr_boxes": BOXES,
            "conditional_detr_boxes": BOXES,
            "grounding_dino_boxes": BOXES,
            "lw_detr_boxes": BOXES,
            "rf_detr_boxes": BOXES,
            "sam3_boxes": BOXES,
            "conditional_detr_points": BOXES[..., :2],
        },
        "deformable-detr": {"deformable_detr_proposals": np.array(SHARES)},
    },
)
def test_a_usage_of_boxes_is_its_librarys(
    direct: Client, grids: Numbers, usage: Usage, oracle: Mapping[str, NDArray[np.floating]]
) -> None:
    for name, positions in oracle.items():
        ours = posted(direct, "/v1/encodings/detr-boxes", {"positions": positions}, **usage.parameters, dim=24)
        check(ours["encoding"], grids[f"{name}.table"], exact_angles=False, farthest=6.3)


@pytest.mark.parametrize("query", [{}, {"offset": "-0.5"}, {"base": "20,30"}, {"normalize": "none"}], ids=str)
def test_a_feature_map_is_the_loops_rounded_once(direct: Client, query: dict[str, str]) -> None:
    bases = (20, 30) if "base" in query else (10000, 10000)
    for dtype in ("float32", "float16", "bfloat16"):
        ours = posted(direct, "/v1/encodings/detr", {"mask": MASK}, dim=8, dtype=dtype, **query)["encoding"]
        for image, mask in zip(ours, MASK.astype(int).tolist(), strict=True):
            positions = oracle_grids.detr_positions(
                mask, 6.283185307179586, offset=float(query.get("offset", 0)), normalize="normalize" not in query
            )
            assert np.array_equal(image, rounded_rows(oracle_grids.detr(positions, 8, bases), dtype))


def test_diffusers_own_float64_table(direct: Client, grids: Numbers) -> None:
    """Its coordinates are float32, the rest is float64: so is the answer, and it can be compared to the last digits."""
    given = CASES["diffusers_scaled"].query
    choices = {"axis_order": "w-first", "dtype": "float64"}
    table = grids["diffusers_scaled.table"]
    assert table.dtype == np.float64
    steps = asked(direct, "/v1/encodings/sinusoidal-2d", **given, **choices, arithmetic="float32-coordinates")
    exact = asked(direct, "/v1/encodings/sinusoidal-2d", **given, **choices)
    assert np.abs(steps["encoding"] - table).max() <= 4e-15
    assert 1e-8 < np.abs(exact["encoding"] - table).max() <= 1e-6
