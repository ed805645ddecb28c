"""`.npz`: a plain zip of npy members that numpy and zipfile read, also beyond 4 GiB."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.formats.npz import NPZ, Checksum, Member, directory
from tests.formats.samples import DOCUMENT, Spec, arrays_of, same, strict, written

FULL = 0xFFFFFFFF


@given(
    arrays=st.dictionaries(
        st.sampled_from(["cos", "sin", "a.b", "é"]),
        st.sampled_from(["float16", "float32", "float64"]).flatmap(lambda dtype: arrays_of(dtype, finite=False)),
        min_size=1,
    )
)
def test_numpy_reads_it(arrays: dict[str, Any]) -> None:
    body = written("npz", arrays)
    loaded = np.load(io.BytesIO(body), allow_pickle=False)
    assert loaded.files == [*arrays, "parameters.json"]
    for name, array in arrays.items():
        assert same(loaded[name], array)
    document = strict(loaded["parameters.json"])
    assert document["parameters"] == {"base": 10000.0, "grid": [4, 6], "length": 4, "name": "é ☃"}
    assert list(document) == sorted(DOCUMENT)


def test_members_are_stored_dated_and_checked() -> None:
    body = written("npz", {"cos": np.array([[1, 2]], np.float32), "sin": np.array([[3]], np.float64)})
    archive = zipfile.ZipFile(io.BytesIO(body))
    assert archive.testzip() is None
    for member in archive.infolist():
        assert member.compress_type == zipfile.ZIP_STORED
        assert member.date_time == (1980, 1, 1, 0, 0, 0)
        assert member.flag_bits == 0
        assert member.external_attr >> 16 == 0o100644
        # Readers that do not look at the directory find size and checksum in the local header too.
        assert body[member.header_offset + 14 :][:4] == member.CRC.to_bytes(4, "little")
        assert body[member.header_offset + 22 :][:4] == member.file_size.to_bytes(4, "little")


def _member(name: bytes, size: int, offset: int) -> Member:
    checksum = Checksum(())
    checksum.value = 7
    return Member(name, size, offset, checksum)


def test_large_members_use_zip64(tmp_path: Path) -> None:
    large = _member(b"large.npy", FULL + 10, 0)
    behind = _member(b"behind.npy", 4, large.local_length + large.size)
    both = _member(b"both.npy", FULL, behind.offset + behind.local_length + behind.size)
    members = [large, behind, both]
    end = both.offset + both.local_length + both.size
    path = tmp_path / "sparse.zip"
    with path.open("wb") as file:
        for member in members:
            file.seek(member.offset)
            file.write(member.local())
            assert len(member.local()) == member.local_length
        file.seek(end)
        file.write(directory(members, end))
    with zipfile.ZipFile(path) as archive:
        found = [(each.filename, each.file_size, each.header_offset, each.CRC) for each in archive.infolist()]
        assert found == [(each.name.decode(), each.size, each.offset, 7) for each in members]
        with archive.open("large.npy") as opened:
            assert opened.read(3) == bytes(3)
    path.unlink()


def test_size_of_large_members_is_known() -> None:
    spec = Spec(("position", "channel"), (1 << 20, 1 << 12), "float16")
    small = Spec(("position", "channel"), (3, 4), "float16")
    data = spec.shape[0] * spec.shape[1] * 2
    # 20 more in each of the local headers and directory for the first, 12 for the offset of the second and of
    # the document, 76 for the wide end records.
    sizes = NPZ.size({}, {"x": spec, "y": small}) - NPZ.size({}, {"x": small, "y": small})
    assert sizes == data - 24 + 20 + 20 + 12 + 12 + 76


def test_a_window_checks_only_the_members_it_touches() -> None:
    asked: list[str] = []
    table = np.zeros((3, 4), np.float32)

    def rows(name: str, start: int, stop: int) -> Any:
        asked.append(name)
        return table[start:stop]

    spec = Spec(("position", "channel"), (3, 4), "float32")
    chunks = NPZ.stream({}, {"x": spec, "y": spec}, rows, start=0, stop=60)
    assert b"".join(chunks)[:4] == b"PK\3\4"
    assert asked == ["x"]
