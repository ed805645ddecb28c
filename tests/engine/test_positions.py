"""Which positions a request means, and which it cannot mean."""

import ml_dtypes
import numpy as np
import pytest

from service.engine.errors import Fault, Refusal
from service.engine.positions import Positioned, as_positions, batch_axes, part, sequence, where
from tests.engine.answers import Array, Inputs

FAR = 2**53


def fault_of(params: Positioned, inputs: Inputs) -> Fault:
    with pytest.raises(Refusal) as caught:
        where(params, inputs)
    return caught.value.faults[0]


def test_consecutive_integers_from_an_offset() -> None:
    places = where(Positioned(length=3, offset=-2), {})
    assert (places.shape, places.values, places.axes, places.farthest) == ((3,), range(-2, 1), ("position",), 2.0)
    assert where(Positioned(length=1, offset=FAR), {}).values == range(FAR, FAR + 1)
    assert where(Positioned(length=2, offset=-FAR), {}).farthest == FAR


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", ">i4"])
def test_positions_of_every_number_format(dtype: str) -> None:
    given = np.array([[0, 1, 2], [5, 6, 7]], dtype)
    places = where(Positioned(), {"positions": given})
    assert (places.shape, places.axes, places.farthest) == ((2, 3), ("batch", "position"), 7.0)
    assert isinstance(places.values, np.ndarray)
    assert places.values.tolist() == [0, 1, 2, 5, 6, 7]
    assert np.asarray(part(Positioned(), {"positions": given}, 2, 4)).tolist() == [2, 5]


def test_bfloat16_positions() -> None:
    given = np.array([-0.0, 257, 0.5]).astype(ml_dtypes.bfloat16)
    values = as_positions(given, "/positions")
    assert values.tolist() == [0, 256, 0.5]
    assert not np.signbit(values[0])
    assert as_positions(np.array([2, -3]), "positions").dtype == np.float64


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_are_in_c_order(order: str) -> None:
    given = np.asarray(np.arange(6).reshape(2, 3), order="F" if order == "F" else "C")
    pieces = [part(Positioned(), {"positions": given}, start, start + 2) for start in (0, 2, 4)]
    assert np.concatenate([np.asarray(piece) for piece in pieces]).tolist() == [0, 1, 2, 3, 4, 5]


def test_parts_of_listed_and_consecutive_positions() -> None:
    listed = part(Positioned(positions=(3, -0.0, 0.5)), {}, 1, 3)
    assert np.asarray(listed).tolist() == [0, 0.5]
    assert not np.signbit(np.asarray(listed)[0])
    assert part(Positioned(length=4, offset=10), {}, 1, 3) == range(11, 13)
    assert part(Positioned(length=4, offset=10), {}, -5, 0) == range(5, 10)


def test_a_block_reads_its_own_positions_only() -> None:
    """Checked once as a whole, positions are not looked at again for every block."""
    given = np.array([1, 2, np.nan])
    assert np.asarray(part(Positioned(), {"positions": given}, 0, 2)).tolist() == [1, 2]


def test_a_number_alone_is_no_list_of_positions() -> None:
    with pytest.raises(Refusal, match=r"a list is needed, such as \[7\]") as refusal:
        where(Positioned(), {"positions": np.array(3)})
    assert refusal.value.faults[0].parameter == "/positions"


def test_names_of_leading_axes() -> None:
    assert batch_axes(1) == ("batch",)
    assert batch_axes(3) == ("batch_0", "batch_1", "batch_2")


@pytest.mark.parametrize(
    ("values", "place"),
    [
        (np.array([0, FAR + 1]), "/positions/1"),
        (np.array([0, -FAR - 1]), "/positions/1"),
        (np.array([[0, 1], [2**63, 5]], np.uint64), "/positions/1/0"),
        (np.array([0, 0, np.nan]), "/positions/2"),
        (np.array([np.inf, 0]), "/positions/0"),
        (np.array([1e16], np.float32), "/positions/0"),
    ],
)
def test_positions_that_float64_cannot_count(values: Array, place: str) -> None:
    fault = fault_of(Positioned(), {"positions": values})
    assert (fault.parameter, fault.code, fault.limit) == (place, "out_of_range", FAR)
    assert "between -2^53 and 2^53" in fault.detail


def test_the_refused_position_is_told() -> None:
    assert fault_of(Positioned(), {"positions": np.array([[0, FAR + 1]])}).detail.startswith(
        "position 0/1 is 9007199254740993; "
    )
    fault = fault_of(Positioned(positions=(1, 1e300)), {})
    assert (fault.parameter, fault.detail[:22]) == ("positions", "position 1 is 1e+300; ")


@pytest.mark.parametrize(
    ("params", "inputs", "named", "code"),
    [
        (Positioned(), {}, "length", "missing"),
        (Positioned(offset=3), {}, "length", "missing"),
        (Positioned(length=2, offset=FAR), {}, "offset", "out_of_range"),
        (Positioned(length=2, positions=(1,)), {}, "length", "conflict"),
        (Positioned(offset=2, positions=(1,)), {}, "offset", "conflict"),
        (Positioned(length=2), {"positions": np.zeros(1)}, "length", "conflict"),
        (Positioned(offset=-1), {"positions": np.zeros(1)}, "offset", "conflict"),
        (Positioned(positions=(1,)), {"positions": np.zeros(1)}, "positions", "repeated"),
        (Positioned(), {"positions": np.zeros((2, 0))}, "/positions", "empty"),
        (Positioned(), {"positions": np.zeros(2, bool)}, "/positions", "type"),
        (Positioned(), {"positions": np.zeros(2, complex)}, "/positions", "type"),
        (Positioned(), {"positions": np.array(["1"])}, "/positions", "type"),
    ],
)
def test_refusals(params: Positioned, inputs: Inputs, named: str, code: str) -> None:
    fault = fault_of(params, inputs)
    assert (fault.parameter, fault.code) == (named, code)


def test_an_offset_too_far_says_where_it_ends() -> None:
    fault = fault_of(Positioned(length=2, offset=FAR), {})
    assert (fault.limit, fault.requested) == (FAR, FAR + 1)


def test_requests_that_share_a_table() -> None:
    one, other = (sequence(Positioned(length=length, offset=offset), {}) for length, offset in ((5, 0), (3, -7)))
    assert one is not None
    assert other is not None
    assert (one.key, one.start, other.start) == (other.key, 0, -7)
    assert sequence(Positioned(positions=(1,)), {}) is None
    assert sequence(Positioned(length=1), {"positions": np.zeros(1)}) is None
    assert sequence(Positioned(), {}) is None
