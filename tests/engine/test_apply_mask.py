"""Masks applied to the caller's scores: one fill where a cell is masked, the score itself elsewhere."""

from typing import Any

import numpy as np
import pytest

from service.engine import by_key
from service.engine.rounding import DTYPES
from tests.engine.answers import DTYPE_NAMES, Array, only, refused

APPLY = "apply/mask"
RANDOM = np.random.default_rng(11)
LOWEST = {"float16": -65504.0, "bfloat16": -3.3895313892515355e38, "float32": -3.4028234663852886e38}


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("shape", [(4, 5), (1, 5), (5,), (2, 4, 5), (2, 1, 5), (2, 3, 4, 5)])
def test_masked_scores_get_the_fill_and_others_stay(shape: tuple[int, ...], dtype: str) -> None:
    x = RANDOM.standard_normal((2, 3, 4, 5)).astype(DTYPES[dtype])
    mask = RANDOM.integers(0, 2, shape)
    heads = mask[:, None] if mask.ndim == 3 else mask
    allowed = np.broadcast_to(heads.astype(bool), x.shape)
    replaced = only(APPLY, {"x": x, "mask": mask}, joining="replace", fill="-100")
    assert replaced.dtype == DTYPES[dtype]
    assert replaced.tobytes() == np.where(allowed, x, np.array(-100, x.dtype)).tobytes()
    added = only(APPLY, {"x": x, "mask": mask}, fill="-100")
    assert added.tobytes() == (x + np.where(allowed, np.array(0, x.dtype), np.array(-100, x.dtype))).tobytes()


def test_two_axes_and_another_number_format() -> None:
    got = only(APPLY, {"x": np.array([[1, 2], [3, 4]]), "mask": np.tri(2, dtype=bool)}, dtype="float16", fill="-inf")
    assert got.dtype == np.float16
    assert got.tolist() == [[1, -np.inf], [3, 4]]


@pytest.mark.parametrize("dtype", LOWEST)
def test_the_default_fill_is_the_lowest_number(dtype: str) -> None:
    x = np.array([[0.5, -1.0]]).astype(DTYPES[dtype])
    for joining in ("add", "replace"):
        got = only(APPLY, {"x": x, "mask": np.array([[0, 1]])}, joining=joining).astype(np.float64)
        assert got.tolist() == [[LOWEST[dtype], -1.0]]


def test_a_very_negative_score_may_overflow_where_it_is_added_to() -> None:
    x, mask = np.array([[-1000.0, 0.0]], np.float16), np.array([[0, 1]])
    assert only(APPLY, {"x": x, "mask": mask}).tolist() == [[-np.inf, 0]]
    assert only(APPLY, {"x": x, "mask": mask}, joining="replace").tolist() == [[-65504, 0]]


def test_queries_without_keys_can_keep_their_scores() -> None:
    x, mask = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0, 0], [0, 1]])
    got = only(APPLY, {"x": x, "mask": mask}, fill="-5", empty_rows="attend-all")
    assert got.tolist() == [[1, 2], [-2, 4]]
    scheme = by_key("apply", "mask")
    facts = scheme.facts(scheme.params(fill="-5"), {"x": x, "mask": mask})
    assert facts == {
        "fill": -5.0,
        "keys_per_query": [0, 1],
        "attended": 1,
        "fully_masked": 1,
        "fully_masked_rows": [0],
    }


@pytest.mark.parametrize(("shape", "axes"), [((2, 3), ("query", "key")), ((5, 2, 3), ("head", "query", "key"))])
def test_axes(shape: tuple[int, ...], axes: tuple[str, ...]) -> None:
    scheme = by_key("apply", "mask")
    inputs = {"x": np.zeros(shape), "mask": np.ones((2, 3), int)}
    assert scheme.tensors(scheme.params(), inputs)["x"].axes == axes


@pytest.mark.parametrize(
    ("x", "mask", "parameters", "named", "code"),
    [
        (np.zeros(3), np.ones(3, int), {}, "/tensors/x", "shape"),
        (np.zeros((2, 3), bool), np.ones(3, int), {}, "/tensors/x", "type"),
        (np.zeros((2, 3)), np.ones((3, 2), int), {}, "/tensors/mask", "shape"),
        (np.zeros((2, 3)), np.ones((1, 2, 3), int), {}, "/tensors/mask", "shape"),
        (np.zeros((4, 2, 3)), np.ones((2, 2, 3), int), {}, "/tensors/mask", "shape"),
        (np.zeros((2, 3)), np.ones((2, 3)), {}, "/tensors/mask", "type"),
        (np.zeros((2, 3)), np.full((2, 3), 2), {}, "/tensors/mask/0/0", "value"),
        (np.zeros((2, 3), np.float16), np.ones((2, 3), int), {"fill": "-1e9"}, "fill", "out_of_range"),
    ],
)
def test_refusals_name_the_parameter(x: Array, mask: Array, parameters: dict[str, Any], named: str, code: str) -> None:
    fault = refused(APPLY, {"x": x, "mask": mask}, **parameters)
    assert (fault.parameter, fault.code) == (named, code)
