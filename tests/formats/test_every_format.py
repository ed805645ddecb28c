"""What holds for every way to write, whatever the tensors."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.formats import FORMATS, decimals
from service.formats.errors import CannotHold
from service.formats.format import BLOCK_BYTES, KEPT_BYTES, Binary, _no_rows, type_of
from tests.formats.holding import HOLDING
from tests.formats.samples import DOCUMENT, FLOATS, arrays_of, rows_of, shapes, specs, written

BINARY = [name for name, each in FORMATS.items() if isinstance(each, Binary)]
TABLE = np.arange(7 * 5, dtype=np.float32).reshape(7, 5) / 3


def pair(extension: str) -> dict[str, NDArray[Any]]:
    tensors = {"cos": TABLE, "sin": -TABLE}
    return {"cos": TABLE} if extension in ("bin", "csv") else tensors


def test_the_formats_are_these() -> None:
    assert list(FORMATS) == ["json", "npy", "npz", "safetensors", "bin", "csv", "png", "svg"]
    assert {name: each.media_type for name, each in FORMATS.items()} == {
        "json": "application/json",
        "npy": "application/octet-stream",
        "npz": "application/octet-stream",
        "safetensors": "application/octet-stream",
        "bin": "application/octet-stream",
        "csv": "text/csv",
        "png": "image/png",
        "svg": "image/svg+xml",
    }
    ranges = {"npy": "bytes", "npz": "small", "safetensors": "bytes", "bin": "bytes"}
    assert {name: each.ranges for name, each in FORMATS.items() if each.ranges != "none"} == ranges
    assert list(ranges) == BINARY


@pytest.mark.parametrize("extension", HOLDING)
@given(data=st.data(), dtype=st.sampled_from(["float16", "float32", "float64"]))
def test_size_is_exact_and_bound_holds(extension: str, data: st.DataObject, dtype: str) -> None:
    array = data.draw(arrays_of(dtype, shapes() if extension != "csv" else shapes().filter(lambda s: s[-1:] != (0,))))
    form, tensors = FORMATS[extension], specs({"table": array})
    length = len(written(extension, {"table": array}))
    assert form.size(DOCUMENT, tensors) == (length if extension in BINARY else None)
    assert length <= form.bound(DOCUMENT, tensors)


def test_asking_for_rows_of_a_size_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="known without computing rows 0:7 of cos"):
        _no_rows("cos", 0, 7)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", -0.000012345679),
        ("float32", -1.17549435e-38),
        ("float64", -0.000020852143232985883),
        ("float64", -2.2250738585072014e-308),
        ("float16", -6.1035156e-5),
        ("bfloat16", -1.1754944e-38),
        ("int8", -128),
        ("uint8", 255),
        ("int16", -(2**15)),
        ("int32", -(2**31)),
        ("int64", -(2**63)),
        ("bool", False),
    ],
)
@pytest.mark.parametrize("extension", ["json", "csv"])
def test_bound_holds_for_the_longest_decimals(extension: str, dtype: str, value: float) -> None:
    array = np.full((3, 4, 50), value).astype(type_of[dtype])
    length = len(written(extension, {"x": array}))
    bound = FORMATS[extension].bound(DOCUMENT, specs({"x": array}))
    assert length <= bound < 2 * length + 500


@pytest.mark.parametrize("extension", BINARY)
@given(data=st.data())
def test_a_window_is_a_slice_of_the_whole(extension: str, data: st.DataObject) -> None:
    arrays = pair(extension)
    whole = written(extension, arrays)
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    block_bytes = data.draw(st.sampled_from([1, 20, 47, 1 << 20]))
    assert written(extension, arrays, start=start, stop=stop, block_bytes=block_bytes) == whole[start:stop]


@pytest.mark.parametrize("extension", ["npy", "safetensors", "bin"])
def test_a_window_computes_only_the_rows_it_needs(extension: str) -> None:
    asked: list[tuple[int, int]] = []

    def rows(_name: str, start: int, stop: int) -> NDArray[Any]:
        asked.append((start, stop))
        return TABLE[start:stop]

    tensors = specs({"cos": TABLE})
    end = FORMATS[extension].bound(DOCUMENT, tensors)
    chunks = FORMATS[extension].stream(DOCUMENT, tensors, rows, start=end - 21, stop=end - 19)
    assert b"".join(chunks) == TABLE[5:].tobytes()[19:21]
    assert asked == [(5, 7)]


@pytest.mark.parametrize("extension", BINARY)
@pytest.mark.parametrize(("start", "stop"), [(-1, 4), (5, 4), (0, 10_000)])
def test_a_window_outside_is_a_mistake(extension: str, start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="is not within 0:"):
        written(extension, pair(extension), start=start, stop=stop)


@pytest.mark.parametrize("extension", ["json", "csv", "png", "svg"])
@pytest.mark.parametrize(("start", "stop"), [(1, None), (0, 4)])
def test_texts_and_pictures_have_no_windows(extension: str, start: int, stop: int | None) -> None:
    with pytest.raises(ValueError, match=f"{extension} has no byte windows"):
        written(extension, pair(extension), start=start, stop=stop)


@pytest.mark.parametrize("extension", HOLDING)
@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 4), (2, 1, 3, 2, 2), (6,), ()])
@pytest.mark.parametrize("dtype", FLOATS)
def test_block_size_does_not_show(extension: str, shape: tuple[int, ...], dtype: str) -> None:
    array = (np.arange(np.prod(shape)).reshape(shape) / 7).astype(type_of[dtype])
    if dtype == "bfloat16" and extension in ("npy", "npz"):
        return
    texts = {written(extension, {"x": array}, block_bytes=size) for size in (1, 9, 24, 50, 1 << 20)}
    assert len(texts) == 1


@pytest.mark.parametrize("extension", FORMATS)
def test_views_are_written_as_what_they_show(extension: str) -> None:
    store = np.arange(140, dtype=np.float32).reshape(14, 10)
    for view in (store[::2, ::2], store[::-2, ::-2], store.T[::2, ::2].T):
        assert written(extension, {"x": view}) == written(extension, {"x": view.copy()})


@pytest.mark.parametrize("extension", HOLDING)
def test_chunks_stay_near_the_block_size(extension: str) -> None:
    array = np.zeros((4096, 16), np.float32)
    chunks = list(FORMATS[extension].stream({}, specs({"x": array}), rows_of({"x": array}), block_bytes=4096))
    assert len(chunks) > 60
    assert max(map(len, chunks)) <= 2 * 4096


@pytest.mark.parametrize("extension", ["json", "csv"])
def test_text_is_written_a_little_at_a_time(extension: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """orjson keeps the interpreter to itself meanwhile, and with it whoever answers others."""
    written_bytes: list[int] = []
    write = decimals.nested

    def noted(array: NDArray[Any], spelling: decimals.Spelling) -> bytes:
        written_bytes.append(array.nbytes)
        return write(array, spelling)

    monkeypatch.setattr(f"service.formats.{extension}_text.nested", noted)
    array = np.zeros((3000, 256), np.float32)
    b"".join(FORMATS[extension].stream({}, specs({"x": array}), rows_of({"x": array})))
    assert sum(written_bytes) == array.nbytes
    assert max(written_bytes) == decimals.WRITTEN_BYTES


@pytest.mark.parametrize("extension", ["json", "npz"])
def test_large_answers_are_not_kept(extension: str) -> None:
    asked: list[tuple[int, int]] = []
    array = np.zeros((KEPT_BYTES // 1024 + 1, 256), np.float32)

    def rows(_name: str, start: int, stop: int) -> NDArray[Any]:
        asked.append((start, stop))
        return array[start:stop]

    body = b"".join(FORMATS[extension].stream({}, specs({"x": array}), rows))
    assert max(stop - start for start, stop in asked) == BLOCK_BYTES // 1024
    assert len(body) > array.size
    asked.clear()
    small = array[:8]
    b"".join(FORMATS[extension].stream({}, specs({"x": small}), rows))
    assert asked == [(0, 8)]


@pytest.mark.parametrize("extension", FORMATS)
def test_wrong_rows_are_a_mistake(extension: str) -> None:
    tensors = specs({"x": TABLE})
    with pytest.raises(ValueError, match=r"x: rows of \(7, 5\) float32 were due"):
        b"".join(FORMATS[extension].stream({}, tensors, lambda *_: TABLE.astype(np.float64)))
    with pytest.raises(ValueError, match="came"):
        b"".join(FORMATS[extension].stream({}, tensors, lambda *_: TABLE[:, :4]))


def _refused(extension: str, arrays: dict[str, NDArray[Any]]) -> CannotHold:
    with pytest.raises(CannotHold) as caught:
        FORMATS[extension].check(specs(arrays))
    with pytest.raises(CannotHold):
        FORMATS[extension].bound(DOCUMENT, specs(arrays))
    with pytest.raises(CannotHold):
        FORMATS[extension].size(DOCUMENT, specs(arrays))
    with pytest.raises(CannotHold):
        # Before the first block is asked for.
        FORMATS[extension].stream(DOCUMENT, specs(arrays), rows_of(arrays))
    return caught.value


def test_refusals_name_what_can_hold_it() -> None:
    brain = TABLE.astype(type_of["bfloat16"])
    assert _refused("npy", {"x": brain}).can == ("safetensors", "bin", "csv", "json")
    assert _refused("npz", {"x": brain, "y": brain}).can == ("safetensors", "json")
    assert str(_refused("npz", {"x": brain})) == ("npz has no bfloat16; safetensors, bin, csv or json can hold it")
    uneven = _refused("npy", {"q": TABLE, "k": TABLE[:3]})
    assert (uneven.code, uneven.can) == ("shapes", ("npz", "safetensors", "json"))
    assert "q, k differ in shape or dtype; tensor=NAME picks one" in uneven.detail
    for extension in ("bin", "csv"):
        several = _refused(extension, {"cos": TABLE, "sin": TABLE})
        assert (several.code, several.can) == ("several", ("npz", "safetensors", "npy", "json"))
        assert f"{extension} holds one tensor, and these are cos, sin; tensor=NAME picks one" in several.detail
    empty = _refused("csv", {"x": TABLE[:, :0]})
    assert (empty.code, empty.can) == ("empty", ("npz", "safetensors", "npy", "bin", "json"))


@pytest.mark.parametrize("extension", FORMATS)
def test_the_same_bytes_later_and_elsewhere(extension: str) -> None:
    if extension == "json":
        time.sleep(2.1)  # zip dates count in steps of two seconds
    here = hashlib.sha256(written(extension, pair(extension))).hexdigest()
    code = (
        "import hashlib; from tests.formats.test_every_format import pair, written;"
        f"print(hashlib.sha256(written({extension!r}, pair({extension!r}))).hexdigest())"
    )
    for seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here
