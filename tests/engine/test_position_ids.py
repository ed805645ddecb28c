"""Position ids: handed cases, rules written again with loops, and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine import by_key
from tests.engine.answers import Array, answer, only, refused

FROM_MASK, PACKED = "positions/from-mask", "positions/packed"
MASKS = st.integers(1, 9).flatmap(
    lambda keys: st.lists(st.lists(st.integers(0, 1), min_size=keys, max_size=keys), min_size=1, max_size=4)
)


def of_mask(mask: object, **parameters: object) -> Array:
    return only(FROM_MASK, {"attention_mask": np.asarray(mask)}, **parameters)


# from-mask


def test_e07_left_padding() -> None:
    mask = [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]
    assert of_mask(mask, fill=1).tolist() == [[0, 1, 2, 3, 4], [1, 1, 0, 1, 2]]
    assert of_mask(mask).tolist() == [[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]]
    assert of_mask([[0, 0, 0]]).tolist() == [[0, 0, 0]]


def test_a14_roberta_begins_behind_its_padding_index() -> None:
    ids = {"input_ids": np.array([[1, 1, 5, 6, 7]])}
    assert only(FROM_MASK, ids, offset=2, fill=1).tolist() == [[1, 1, 2, 3, 4]]
    assert only(FROM_MASK, ids, offset=2, fill=1, pad_token_id=5).tolist() == [[2, 3, 1, 4, 5]]


def test_the_padding_id_is_the_fill_unless_given_and_stated_in_the_reply() -> None:
    scheme = by_key("positions", "from-mask")
    params = scheme.params(offset=2, fill=1)
    assert scheme.resolve(params, {"input_ids": np.array([1])}).pad_token_id == 1
    assert scheme.resolve(params, {"attention_mask": np.array([1])}).pad_token_id is None
    assert scheme.facts(params, {"input_ids": np.array([[1, 4], [5, 1]])}) == {"tokens": 2}


@given(MASKS, st.integers(-5, 5), st.integers(-5, 5), st.data())
def test_the_rule_in_loops(mask: list[list[int]], offset: int, fill: int, data: st.DataObject) -> None:
    last = data.draw(st.integers(1, len(mask[0])))
    expected = []
    for row in mask:
        position, ids = offset, []
        for token in row:
            ids.append(position if token else fill)
            position += token
        expected.append(ids[len(row) - last :])
    assert of_mask(mask, offset=offset, fill=fill, last=last).tolist() == expected
    assert of_mask(mask[0], offset=offset, fill=fill).tolist()[len(mask[0]) - last :] == expected[0]


def test_int32_and_where_it_ends() -> None:
    assert of_mask([1, 1], dtype="int32", offset=2**31 - 3).dtype == np.int32
    fault = refused(FROM_MASK, {"attention_mask": np.array([1, 1])}, dtype="int32", offset=2**31 - 2)
    assert (fault.parameter, fault.limit, fault.requested) == ("offset", 2**31 - 1, 2**31)
    fault = refused(FROM_MASK, {"attention_mask": np.array([1, 1])}, dtype="int32", fill=-(2**31) - 1)
    assert (fault.parameter, fault.requested) == ("fill", -(2**31) - 1)
    fault = refused(FROM_MASK, {"attention_mask": np.array([1, 1])}, offset=2**53 - 1)
    assert "2^53 is the farthest" in fault.detail


@pytest.mark.parametrize(
    ("arrays", "parameters", "named", "code"),
    [
        ({"attention_mask": [0, 2]}, {}, "/tensors/attention_mask/1", "value"),
        ({"attention_mask": [0.5]}, {}, "/tensors/attention_mask", "type"),
        ({"attention_mask": [[[1]]]}, {}, "/tensors/attention_mask", "shape"),
        ({"attention_mask": np.zeros((2, 0), np.int64)}, {}, "/tensors/attention_mask", "shape"),
        ({"attention_mask": [1], "input_ids": [1]}, {}, "/tensors/input_ids", "conflict"),
        ({"attention_mask": [1]}, {"pad_token_id": 1}, "pad_token_id", "conflict"),
        ({"attention_mask": [1, 1]}, {"last": 3}, "last", "out_of_range"),
        ({"input_ids": [1.5]}, {}, "/tensors/input_ids", "type"),
    ],
)
def test_masks_that_are_refused(
    arrays: dict[str, object], parameters: dict[str, object], named: str, code: str
) -> None:
    fault = refused(FROM_MASK, {name: np.array(value) for name, value in arrays.items()}, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


# packed


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6).filter(any), st.integers(-3, 3))
def test_three_ways_of_saying_the_same(lengths: list[int], offset: int) -> None:
    expected = [offset + place for length in lengths for place in range(length)]
    bounds = np.cumsum([0, *lengths])
    ids = [9 - segment for segment, length in enumerate(lengths) for _ in range(length)]
    for name, array in (("segment_lengths", lengths), ("cu_seqlens", bounds), ("segment_ids", ids)):
        assert only(PACKED, {name: np.asarray(array)}, offset=offset).tolist() == expected


@given(MASKS, st.sampled_from([None, 0, 1]))
def test_segments_in_any_order_in_loops(rows: list[list[int]], padding: int | None) -> None:
    expected = [
        [0 if segment == padding else row[:place].count(segment) + 3 for place, segment in enumerate(row)]
        for row in rows
    ]
    got = only(PACKED, {"segment_ids": np.array(rows)}, offset=3, padding_segment=padding)
    assert got.tolist() == expected


@pytest.mark.parametrize(
    ("arrays", "parameters", "named", "code"),
    [
        ({"segment_lengths": [3], "cu_seqlens": [0, 3]}, {}, "/tensors/cu_seqlens", "conflict"),
        ({"segment_lengths": [3]}, {"padding_segment": 0}, "padding_segment", "conflict"),
        ({"segment_lengths": [3, -1]}, {}, "/tensors/segment_lengths/1", "out_of_range"),
        ({"segment_lengths": [2**62, 2**62]}, {}, "/tensors/segment_lengths/0", "out_of_range"),
        ({"segment_lengths": [2**23, 1]}, {}, "/tensors/segment_lengths", "out_of_range"),
        ({"segment_lengths": [0]}, {}, "/tensors/segment_lengths", "out_of_range"),
        ({"segment_lengths": [[3]]}, {}, "/tensors/segment_lengths", "shape"),
        ({"cu_seqlens": [1, 3]}, {}, "/tensors/cu_seqlens", "value"),
        ({"cu_seqlens": [0]}, {}, "/tensors/cu_seqlens", "value"),
        ({"cu_seqlens": [0, 3, 2]}, {}, "/tensors/cu_seqlens/2", "out_of_range"),
        ({"segment_ids": [[[1]]]}, {}, "/tensors/segment_ids", "shape"),
        ({"segment_ids": [0.5]}, {}, "/tensors/segment_ids", "type"),
        ({"segment_ids": [1]}, {"offset": 2**53}, "offset", "out_of_range"),
    ],
)
def test_packings_that_are_refused(
    arrays: dict[str, object], parameters: dict[str, object], named: str, code: str
) -> None:
    fault = refused(PACKED, {name: np.array(value) for name, value in arrays.items()}, **parameters)
    assert (fault.parameter, fault.code) == (named, code)


def test_packed_answers_are_what_was_asked_for() -> None:
    (positions,) = answer(PACKED, {"cu_seqlens": np.array([0, 2, 5])}, dtype="int32").values()
    assert positions.dtype == np.int32
    assert positions.tolist() == [0, 1, 0, 1, 2]
