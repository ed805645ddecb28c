"""Relative positions of eight models, frozen: `python -m tests.golden.make_relative`.

`t5.*`, `deberta.*`, `swin.*`, `beit.*`, `speecht5.*`: indices, int64. `swin_v2.*`: coordinates, and `conformer.*`,
`xlnet.*`: sinusoids, float32. Buckets are given for the distances -reach ... reach, in that order.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save

T5 = (("bidirectional", 32, 128), ("causal", 32, 128), ("bidirectional", 64, 256), ("bidirectional", 320, 800))
DEBERTA = ((256, 512), (64, 300), (8, 40))
WINDOWS = ((2, 3), (5, 2), (7, 7))
COORDINATES = (((3, 4), (0, 0)), ((7, 7), (0, 0)), ((4, 6), (8, 5)))
LENGTH, DIM = 9, 12
XLNET = (("bi", 4, 7, -1), ("uni", 4, 7, -1), ("bi", 5, 9, 3))


def modeling(model: str) -> Any:
    return library(f"transformers.models.{model}.modeling_{model}")


def t5(direction: str, num_buckets: int, max_distance: int, reach: int) -> NDArray[np.int64]:
    """T5's buckets of key - query = -reach ... reach."""
    relative = library("torch").arange(-reach, reach + 1)
    of = modeling("t5").T5Attention._relative_position_bucket
    return np.asarray(of(relative, direction == "bidirectional", num_buckets, max_distance))


def deberta(position_buckets: int, max_relative_positions: int, reach: int) -> NDArray[np.int64]:
    """DeBERTa v2's buckets of query - key = -reach ... reach."""
    relative = library("torch").arange(-reach, reach + 1)
    of = modeling("deberta_v2").make_log_bucket_position
    return np.asarray(of(relative, position_buckets, max_relative_positions)).astype(np.int64)


def swin(window: tuple[int, int]) -> NDArray[np.int64]:
    kind = next(value for name, value in vars(modeling("swin")).items() if name.endswith("RelativePositionBias"))
    return np.asarray(kind._create_relative_position_index(SimpleNamespace(window_size=window)))


def beit(window: tuple[int, int]) -> NDArray[np.int64]:
    return np.asarray(modeling("beit").BeitRelativePositionBias.generate_relative_position_index(window))


def swin_v2(window: tuple[int, int], pretrained: tuple[int, int]) -> NDArray[np.float32]:
    """Swin v2's coordinates, (2 H - 1, 2 W - 1, 2)."""
    network = library("torch").nn.Linear(2, 1)
    layer = SimpleNamespace(window_size=window, pretrained_window_size=pretrained, continuous_position_bias_mlp=network)
    coordinates, _ = modeling("swinv2").Swinv2SelfAttention.create_coords_table_and_index(layer)
    return np.asarray(coordinates[0])


def conformer(length: int, dim: int) -> NDArray[np.float32]:
    """Wav2Vec2-Conformer's rows for distances length - 1 ... -(length - 1)."""
    config = SimpleNamespace(max_source_positions=length, hidden_size=dim)
    embedding = modeling("wav2vec2_conformer").Wav2Vec2ConformerRelPositionalEmbedding(config)
    return np.asarray(embedding(library("torch").zeros(1, length, dim))[0])


def xlnet(attn_type: str, queries: int, keys: int, clamp_len: int, dim: int) -> NDArray[np.float32]:
    kind = modeling("xlnet").XLNetModel
    model = SimpleNamespace(
        d_model=dim,
        attn_type=attn_type,
        bi_data=False,
        clamp_len=clamp_len,
        positional_embedding=kind.positional_embedding,
    )
    return np.asarray(kind.relative_positional_encoding(model, queries, keys)[:, 0])


def speecht5(length: int, reach: int) -> NDArray[np.int64]:
    """Which row of SpeechT5's table each query and key take."""
    torch = library("torch")
    table = modeling("speecht5").SpeechT5RelativePositionalEncoding(1, reach)
    table.pe_k.weight.data = torch.arange(2.0 * reach)[:, None]
    return np.asarray(table(torch.zeros(1, length, 1)).detach()[..., 0]).astype(np.int64)


def build() -> Numbers:
    """Everything the file holds, by name."""
    arrays: Numbers = {}
    for direction, buckets, distance in T5:
        arrays[f"t5.{direction}.{buckets}.{distance}"] = t5(direction, buckets, distance, 2 * distance)
    for buckets, distance in DEBERTA:
        arrays[f"deberta.{buckets}.{distance}"] = deberta(buckets, distance, 2 * distance)
    for window in WINDOWS:
        arrays[f"swin.{window[0]}.{window[1]}"] = swin(window)
        arrays[f"beit.{window[0]}.{window[1]}"] = beit(window)
    for number, (window, pretrained) in enumerate(COORDINATES):
        arrays[f"swin_v2.{number}"] = swin_v2(window, pretrained)
    arrays["conformer"] = conformer(LENGTH, DIM)
    for number, (attn_type, queries, keys, clamp_len) in enumerate(XLNET):
        arrays[f"xlnet.{number}"] = xlnet(attn_type, queries, keys, clamp_len, DIM)
    arrays["speecht5"] = speecht5(LENGTH, 4)
    return arrays


if __name__ == "__main__":
    save("relative", build(), "torch", "transformers", "numpy")
