"""DETR's sine encoding: counts of pixels, normalised positions, and what masks may be."""

from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from tests.engine.answers import DTYPE_NAMES, Array, assert_rounded_once, only, refused
from tests.oracles.exact import ulps_apart
from tests.oracles.oracle_grids import detr, detr_positions

DETR = "encodings/detr"
TWO_PI = 6.283185307179586
SIDES = (4, 7)
MASK: Array = np.ones((3, *SIDES), np.bool_)
MASK[1, 3:] = MASK[1, :, 5:] = False
MASK[2] = np.random.default_rng(8).random(SIDES) < 0.5


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"offset": -0.5, "scale": 1.5, "eps": 1e-3},
        {"normalize": "none", "offset": -0.5},
        {"base": (20.0, 300.0)},
    ],
    ids=str,
)
def test_every_value_is_rounded_once(dtype: str, choices: dict[str, Any]) -> None:
    given = {"scale": TWO_PI, "eps": 1e-6, "offset": 0.0} | {
        name: value for name, value in choices.items() if name in ("scale", "eps", "offset")
    }
    normalize = "normalize" not in choices
    got = only(DETR, {"mask": MASK}, dim=8, dtype=dtype, **choices)
    assert got.shape == (3, 28, 8)
    for image, mask in zip(got, MASK.astype(int).tolist(), strict=True):
        positions = detr_positions(mask, **given, normalize=normalize)
        assert_rounded_once(image, detr(positions, 8, choices.get("base", (10000, 10000))), dtype)
    whole = only(DETR, grid=SIDES, dim=8, dtype=dtype, **choices)
    np.testing.assert_array_equal(whole, got[0])


def test_the_first_pixel_counts_one_and_the_last_lies_at_two_pi() -> None:
    got = only(DETR, grid=(2, 3), dim=4, normalize="none", dtype="float64", grid_axes="kept")
    np.testing.assert_allclose(np.arctan2(got[0, :, 2], got[0, :, 3]), [1, 2, 3], atol=1e-15)
    np.testing.assert_allclose(np.arctan2(got[:, 0, 0], got[:, 0, 1]), [1, 2], atol=1e-15)
    got = only(DETR, grid=(2, 3), dim=4, dtype="float64", grid_axes="kept")
    np.testing.assert_allclose(
        np.arctan2(got[0, :, 2], got[0, :, 3]) % TWO_PI, TWO_PI * np.array([1, 2, 3]) / 3, atol=3e-6
    )


def test_padding_does_not_move_the_pixels() -> None:
    """A padded image has the values of the same image alone; in padding nothing counts on."""
    padded = only(DETR, {"mask": MASK[1]}, dim=16, grid_axes="kept")
    np.testing.assert_array_equal(padded[:3, :5], only(DETR, grid=(3, 5), dim=16, grid_axes="kept"))
    np.testing.assert_array_equal(padded[0, 5:, 8:], np.repeat(padded[0, 4:5, 8:], 2, axis=0))


def test_a_mask_may_mark_either() -> None:
    pixels = only(DETR, {"mask": MASK}, dim=8)
    np.testing.assert_array_equal(only(DETR, {"mask": ~MASK}, dim=8, mask_marks="padding"), pixels)
    np.testing.assert_array_equal(only(DETR, {"mask": MASK.astype(np.int64)}, dim=8), pixels)
    np.testing.assert_array_equal(only(DETR, {"mask": MASK[2]}, dim=8), pixels[2])
    np.testing.assert_array_equal(only(DETR, {"mask": MASK}, dim=8, grid=SIDES), pixels)


def test_orders() -> None:
    got = only(DETR, {"mask": MASK}, dim=8)
    np.testing.assert_array_equal(
        only(DETR, {"mask": MASK}, dim=8, axis_order="w-first"), got[..., [4, 5, 6, 7, 0, 1, 2, 3]]
    )
    np.testing.assert_array_equal(
        only(DETR, {"mask": MASK}, dim=8, layout="sin-cos"), got[..., [0, 2, 1, 3, 4, 6, 5, 7]]
    )
    np.testing.assert_array_equal(
        only(DETR, {"mask": MASK}, dim=8, layout="sines-first"), got[..., [0, 2, 4, 6, 1, 3, 5, 7]]
    )
    np.testing.assert_array_equal(only(DETR, {"mask": MASK}, dim=8, grid_axes="kept"), got.reshape(3, *SIDES, 8))


@pytest.mark.parametrize("grid_axes", ["flat", "kept"])
@pytest.mark.parametrize("choices", [{}, {"layout": "sines-first", "arithmetic": "float32"}], ids=str)
def test_the_channel_may_come_first(grid_axes: str, choices: dict[str, str]) -> None:
    given = {"dim": 8, "grid_axes": grid_axes, **choices}
    last, first = (only(DETR, {"mask": MASK}, channel_axis=axis, **given) for axis in ("last", "first"))
    np.testing.assert_array_equal(first, np.moveaxis(last, -1, 1))
    last, first = (only(DETR, grid=SIDES, channel_axis=axis, **given) for axis in ("last", "first"))
    np.testing.assert_array_equal(first, np.moveaxis(last, -1, 0))


def steps(mask: Array, dim: int, base: float, offset: float) -> Array:
    """One image in the float32 steps of the libraries: positions divided by powers, y's half then x's."""
    halves = []
    for axis in (0, 1):
        counts = np.cumsum(mask, axis=axis, dtype=np.float32)
        last = np.take(counts, [-1], axis=axis)
        positions = (counts + np.float32(offset)) / (last + np.float32(1e-6)) * np.float32(TWO_PI)
        exponents = np.arange(0, dim // 2, 2, dtype=np.float32) / np.float32(dim // 2)
        periods = np.power(base, exponents.astype(np.float64)).astype(np.float32)
        angles = (positions.reshape(-1, 1) / periods).astype(np.float64)
        waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        halves.append(waves.reshape(len(waves), -1).astype(np.float32))
    return np.concatenate(halves, axis=1)


@pytest.mark.parametrize(("dim", "base", "offset"), [(256, 10000, 0), (136, 20, -0.5), (68, 777.7, 0)])
def test_float32_takes_the_steps_of_the_libraries(dim: int, base: float, offset: float) -> None:
    choices = {"dim": dim, "base": (base,), "offset": offset, "arithmetic": "float32"}
    got = only(DETR, {"mask": MASK}, **choices)
    for image, mask in zip(got, MASK, strict=True):
        assert ulps_apart(image, steps(mask, dim, base, offset)).max() <= 1
    assert ulps_apart(only(DETR, grid=(9, 40), **choices), steps(np.ones((9, 40)), dim, base, offset)).max() <= 1


def test_the_parameters_say_what_was_used() -> None:
    scheme = by_key("encodings", "detr")
    used = scheme.resolve(scheme.params(dim=8), {"mask": MASK})
    assert (used.grid, used.base, used.scale) == (SIDES, (10000.0, 10000.0), TWO_PI)
    assert scheme.resolve(scheme.params(dim=8, grid="3", normalize="none"), {}).scale is None
    assert scheme.facts(used, {}) == {"height_channels": 4, "width_channels": 4}
    assert scheme.notes(used, {}) == []
    assert "float32" in scheme.notes(scheme.params(dim=8, arithmetic="float32"), {})[0]
    assert scheme.notes(scheme.params(dim=8, normalize="none", eps=0.5), {}) == [
        "eps has no effect with normalize=none"
    ]
    marked = scheme.params(dim=8, mask_marks="padding")
    assert scheme.notes(marked, {}) == ["mask_marks has no effect with no mask"]
    assert scheme.notes(marked, {"mask": MASK}) == []
    assert scheme.state_bytes(used, {"mask": MASK}) > scheme.state_bytes(used, {})


EMPTY = MASK.copy()
EMPTY[1] = False


@pytest.mark.parametrize(
    ("mask", "parameters", "named", "code"),
    [
        (None, {}, "grid", "missing"),
        (None, {"grid": (2, 3), "dim": 6}, "dim", "indivisible"),
        (None, {"grid": (2, 3), "normalize": "none", "scale": 2.0}, "scale", "conflict"),
        (None, {"grid": (2, 3), "base": (0.5,), "arithmetic": "float32"}, "base", "out_of_range"),
        (MASK, {"grid": (7, 4)}, "/tensors/mask", "shape"),
        (MASK[0, 0], {}, "/tensors/mask", "shape"),
        (MASK[None], {}, "/tensors/mask", "shape"),
        (MASK[:, :0], {}, "/tensors/mask", "shape"),
        (MASK * 2, {}, "/tensors/mask/0/0/0", "value"),
        (MASK.astype(np.float32), {}, "/tensors/mask", "type"),
        (EMPTY, {}, "/tensors/mask/1", "empty"),
        (EMPTY[1], {}, "/tensors/mask", "empty"),
        (MASK, {"mask_marks": "padding"}, "/tensors/mask/0", "empty"),
        (np.ones((2**12, 2**11 + 1), np.bool_), {}, "/tensors/mask", "too_large"),
    ],
    ids=str,
)
def test_refusals_name_what_is_wrong(mask: Array | None, parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(DETR, {} if mask is None else {"mask": mask}, **{"dim": 8, **parameters})
    assert (fault.parameter, fault.code) == (named, code)
