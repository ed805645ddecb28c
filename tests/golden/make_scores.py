"""Scores with relative positions, of seven models and x-transformers, frozen: `python -m tests.golden.make_scores`.

All float32. `x` (batch, heads, queries, keys) are scores; `NAME.bias` is what a model adds to them, from a learned
`NAME.table`, or from `NAME.relative`, the scores of each query with each relative position, not shifted yet. For
vectors added to keys there are `NAME.q` (heads, length, dim), and only every STEP-th query of `NAME.bias`.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save
from tests.golden.make_relative import modeling

BATCH, HEADS, DIM = 2, 3, 8
QUERIES, KEYS = 4, 7
LENGTH = 7
VECTORS = {"wav2vec2_bert": (90, 73), "vits": (13, 9), "speecht5": (200, 320)}  # length, and rows of the table
STEP = 11
RANDOM = 5


def random(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(RANDOM + seed).standard_normal(shape).astype(np.float32)


def tensor(array: NDArray[Any]) -> Any:
    return library("torch").from_numpy(array)


def t5(direction: str, table: NDArray[np.float32]) -> NDArray[np.float32]:
    """T5's bias of a few queries after a cache, (heads, queries, keys)."""
    num_buckets, _ = table.shape
    kind = modeling("t5").T5Attention
    torch = library("torch")
    attention = SimpleNamespace(
        relative_attention_bias=torch.nn.Embedding.from_pretrained(tensor(table)),
        relative_attention_num_buckets=num_buckets,
        relative_attention_max_distance=128,
        is_decoder=direction == "causal",
        _relative_position_bucket=kind._relative_position_bucket,
    )
    return np.asarray(kind.compute_bias(attention, QUERIES, KEYS, past_seen_tokens=KEYS - QUERIES)[0])


def x_transformers(table: NDArray[np.float32]) -> NDArray[np.float32]:
    """x-transformers' bias with causal=True and its scale of sqrt(64), (heads, queries, keys)."""
    bias = library("x_transformers.x_transformers").RelativePositionBias(8.0, causal=True, heads=table.shape[1])
    bias.relative_attention_bias.weight.data = tensor(table)
    return np.asarray(bias(QUERIES, KEYS).detach())


def wav2vec2_bert(q: NDArray[np.float32], table: NDArray[np.float32]) -> NDArray[np.float32]:
    """What Wav2Vec2-BERT adds to its scores, which are scaled."""
    dim = q.shape[-1]
    attention = SimpleNamespace(
        left_max_position_embeddings=64,
        right_max_position_embeddings=8,
        distance_embedding=library("torch").nn.Embedding.from_pretrained(tensor(table)),
        head_size=dim,
        scaling=dim**-0.5,
    )
    _, bias = modeling("wav2vec2_bert")._apply_relative_key_position_encoding(
        attention, tensor(q)[None], tensor(q)[None]
    )
    return np.asarray(bias[0])


def vits(q: NDArray[np.float32], table: NDArray[np.float32]) -> NDArray[np.float32]:
    """What VITS adds to its scores, of queries that are scaled already, (heads, length, length)."""
    attention = SimpleNamespace(window_size=(len(table) - 1) // 2)
    kind = modeling("vits").VitsAttention
    torch = library("torch")
    vectors = kind._get_relative_embeddings(attention, tensor(table)[None], q.shape[-2])
    logits = torch.matmul(tensor(q), vectors.transpose(-2, -1))
    return np.asarray(kind._relative_position_to_absolute_position(attention, logits))


def speecht5(q: NDArray[np.float32], table: NDArray[np.float32]) -> NDArray[np.float32]:
    """What SpeechT5 adds to its scores, of queries that are scaled already, (heads, length, length)."""
    torch = library("torch")
    reach = len(table) // 2
    encoding = modeling("speecht5").SpeechT5RelativePositionalEncoding(q.shape[-1], reach)
    encoding.pe_k.weight.data = tensor(table)
    vectors = encoding(torch.zeros(1, q.shape[-2], 1)).detach()
    return np.asarray(torch.einsum("hqd,qkd->hqk", tensor(q), vectors))


MODELS = {"wav2vec2_bert": wav2vec2_bert, "vits": vits, "speecht5": speecht5}


def xlnet(relative: NDArray[np.float32], keys: int) -> NDArray[np.float32]:
    """XLNet's shift."""
    kind = next(value for name, value in vars(modeling("xlnet")).items() if hasattr(value, "rel_shift_bnij"))
    return np.asarray(kind.rel_shift_bnij(tensor(relative), klen=keys))


def parakeet(relative: NDArray[np.float32]) -> NDArray[np.float32]:
    """Parakeet's shift, cut to the keys as its attention does it."""
    kind = next(value for name, value in vars(modeling("parakeet")).items() if hasattr(value, "_rel_shift"))
    return np.asarray(kind._rel_shift(None, tensor(relative)))[..., : relative.shape[-2]]


def vectors() -> Numbers:
    """What three models make of queries and their tables."""
    arrays: Numbers = {}
    for seed, (name, (length, rows)) in enumerate(VECTORS.items()):
        arrays[f"{name}.q"], arrays[f"{name}.table"] = random(20 + seed, 2, length, DIM), random(30 + seed, rows, DIM)
        whole = MODELS[name](arrays[f"{name}.q"], arrays[f"{name}.table"])
        arrays[f"{name}.bias"] = whole[:, ::STEP]
    return arrays


def build() -> Numbers:
    """Everything the file holds, by name."""
    arrays: Numbers = {
        "x": random(0, BATCH, HEADS, QUERIES, KEYS),
        "t5.table": random(2, 32, HEADS),
        "xlnet-bi.relative": random(6, BATCH, HEADS, QUERIES, QUERIES + KEYS),
        "xlnet-uni.relative": random(7, BATCH, HEADS, QUERIES, KEYS + 1),
        "parakeet.relative": random(8, BATCH, HEADS, LENGTH, 2 * LENGTH - 1),
    }
    for direction in ("bidirectional", "causal"):
        arrays[f"t5.{direction}.bias"] = t5(direction, arrays["t5.table"])
    arrays["x_transformers.bias"] = x_transformers(arrays["t5.table"])
    for span in ("xlnet-bi", "xlnet-uni"):
        arrays[f"{span}.bias"] = xlnet(arrays[f"{span}.relative"], KEYS)
    arrays["parakeet.bias"] = parakeet(arrays["parakeet.relative"])
    return arrays | vectors()


if __name__ == "__main__":
    save("scores", build(), "torch", "transformers", "x-transformers", "numpy")
