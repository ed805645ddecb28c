"""How the engine's tests ask: a scheme's whole answer, or the one refusal it gives."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from service.engine import by_key
from service.engine.errors import Fault, Refusal
from service.engine.rounding import DTYPES
from service.engine.scheme import whole
from tests.oracles.exact import rounded_rows, ulps_apart

Array = NDArray[Any]
Inputs = Mapping[str, Array]
DTYPE_NAMES = tuple(DTYPES)


def answer(address: str, inputs: Inputs | None = None, /, **parameters: object) -> dict[str, Array]:
    """Every tensor of `family/name` at those parameters."""
    scheme = by_key(*address.split("/"))
    return whole(scheme, scheme.params(**parameters), inputs)


def only(address: str, inputs: Inputs | None = None, /, **parameters: object) -> Array:
    """The one tensor of an answer."""
    (tensor,) = answer(address, inputs, **parameters).values()
    return tensor


def refused(address: str, inputs: Inputs | None = None, /, **parameters: object) -> Fault:
    """Why the engine refuses; anything else than one refusal fails."""
    with pytest.raises(Refusal) as caught:
        answer(address, inputs, **parameters)
    (fault,) = caught.value.faults
    return fault


def assert_rounded_once(got: Array, exact: Any, dtype: str) -> None:
    """Equal to the real numbers (rows of mpf) rounded once; float64 within 1 ulp."""
    assert got.dtype == DTYPES[dtype]
    expected = rounded_rows(exact, dtype)
    assert got.shape == expected.shape
    if dtype == "float64":
        assert ulps_apart(got, expected, "float64").max() <= 1
    else:
        np.testing.assert_array_equal(got.astype(np.float64), expected)


def close(got: ArrayLike, expected: ArrayLike, within: float = 1e-8) -> None:
    """Equal to the digits that a case states."""
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(expected, np.float64), rtol=0, atol=within)
