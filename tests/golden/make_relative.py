"""Relative positions of two dozen models, frozen: `python -m tests.golden.make_relative`.

`t5.*`, `deberta.*`, `swin.*`, `beit.*`, `speecht5.*`: indices, int64. `swin_v2.*`: coordinates, and `conformer.*`,
`xlnet.*`: sinusoids, float32. Buckets are given for the distances -reach ... reach, in that order.

`buckets.*` and `rows.*` are one query in the middle of 2 REACH + 1 keys, `index.*` and `cr` whole windows, `axis.*`
the rows that get_rel_pos gathers (queries, keys), `sinusoids.*` rows of DIM channels. timm's two files are imported
without the rest of it, which wants torchvision.
"""

import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save

T5 = (("bidirectional", 32, 128), ("causal", 32, 128), ("bidirectional", 64, 256), ("bidirectional", 320, 800))
DEBERTA = ((256, 512), (64, 300), (8, 40))
WINDOWS = ((2, 3), (5, 2), (7, 7))
COORDINATES = (((3, 4), (0, 0)), ((7, 7), (0, 0)), ((4, 6), (8, 5)))
LENGTH, DIM = 9, 12
XLNET = (("bi", 4, 7, -1), ("uni", 4, 7, -1), ("bi", 5, 9, 3))


REACH = 700  # farther than every table but the widest
AXES = ((8, 6), (5, 5), (7, 16), (16, 7), (14, 13), (14, 62))
CR_WINDOW = (7, 7)
GEMMA = (3, 6)  # one more than the keys ahead, and than those behind


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


def layoutlm_boxes(distances: Any) -> Any:
    return modeling("layoutlmv2").relative_position_bucket(distances, num_buckets=64, max_distance=256)


def wavlm(distances: Any) -> Any:
    of = modeling("wavlm").WavLMAttention._relative_positions_bucket
    return of(SimpleNamespace(num_buckets=320, max_distance=800), distances)


def cpmant(distances: Any) -> Any:
    return modeling("cpmant").CpmAntSegmentPositionEmbedding._position_bucket(None, distances, 512, 2048)


def x_transformers(distances: Any) -> Any:
    return library("x_transformers.x_transformers").RelativePositionBias._relative_position_bucket(distances)


def t5_default(distances: Any) -> Any:
    return modeling("t5").T5Attention._relative_position_bucket(distances)


def mpnet(distances: Any) -> Any:
    return modeling("mpnet").MPNetEncoder.relative_position_bucket(distances)


# What each makes of key - query.
BUCKETS: dict[str, Callable[[Any], Any]] = {
    "t5": t5_default,
    "umt5": lambda distances: modeling("umt5").UMT5Attention._relative_position_bucket(
        SimpleNamespace(relative_attention_num_buckets=32, relative_attention_max_distance=128, is_decoder=False),
        distances,
    ),
    "mpnet": mpnet,
    "layoutlm": lambda distances: modeling("layoutlmv2").relative_position_bucket(distances),
    "udop": lambda distances: modeling("udop").get_relative_position_bucket(distances, bidirectional=True),
    "t5.causal": lambda distances: modeling("t5").T5Attention._relative_position_bucket(distances, bidirectional=False),
    "prophetnet": lambda distances: modeling("prophetnet").compute_relative_buckets(32, 128, distances),
    "x_transformers": x_transformers,
    "layoutlm.boxes": layoutlm_boxes,
    "wavlm": wavlm,
    "cpmant": cpmant,
}


def vits(window: int, length: int) -> Any:
    """Which row of VITS's table each query and key take; its padding, zeros, as one row more."""
    torch = library("torch")
    module = modeling("vits").VitsAttention
    rows = torch.arange(1.0, 2 * window + 2)[None, :, None]
    padded = module._get_relative_embeddings(SimpleNamespace(window_size=window), rows, length)[0, :, 0]
    logits = padded[None, None].expand(1, length, 2 * length - 1).contiguous()
    chosen = module._relative_position_to_absolute_position(None, logits)[0].long()
    return torch.where(chosen > 0, chosen - 1, 2 * window + 1)


def wav2vec2_bert(length: int) -> Any:
    """The rows as attention biases of a query of ones, one channel wide."""
    torch = library("torch")
    layer = SimpleNamespace(left_max_position_embeddings=64, right_max_position_embeddings=8, scaling=1.0)
    layer.distance_embedding = torch.nn.Embedding.from_pretrained(torch.arange(73.0)[:, None])
    ones = torch.ones(1, 1, length, 1)
    return modeling("wav2vec2_bert")._apply_relative_key_position_encoding(layer, ones, ones)[1][0, 0].long()


def deberta_v1(length: int) -> Any:
    ones = library("torch").ones(1, length, 1)
    return library("torch").clamp(modeling("deberta").build_relative_position(ones, ones)[0] + 512, 0, 1023)


def levit(side: int) -> Any:
    return modeling("levit").LevitAttention(8, 4, 1, 1, side).attention_bias_idxs


def levit_subsampled(side: int, stride: int) -> Any:
    layer = modeling("levit").LevitAttentionSubsample(8, 8, 4, 1, 1, stride, side, (side - 1) // stride + 1)
    return layer.attention_bias_idxs


def timm_rel() -> Any:
    """timm.layers.pos_embed_rel alone: the package itself would import torchvision."""
    found = find_spec("timm")
    assert found is not None
    assert found.submodule_search_locations
    (root,) = found.submodule_search_locations
    with patch.dict(sys.modules):
        for name, folder in (("timm", root), ("timm.layers", f"{root}/layers")):
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = [folder]
        return library("timm.layers.pos_embed_rel")


def axis(model: str, queries: int, keys: int) -> Any:
    """Which rows of a table that needs no resizing get_rel_pos gathers."""
    torch = library("torch")
    table = torch.arange(2.0 * max(queries, keys) - 1)[:, None]
    if model == "vitdet":
        return modeling(model).get_rel_pos(queries, keys, table)[..., 0].long()
    return modeling(model).SamVisionAttention.get_rel_pos(None, queries, keys, table).reshape(queries, keys).long()


def sam_resized(queries: int, keys: int) -> dict[str, Any]:
    """get_rel_pos with a table of another length: float32, 13 rows of 3."""
    torch = library("torch")
    torch.manual_seed(3)
    table = torch.randn(13, 3)
    gathered = modeling("vitdet").get_rel_pos(queries, keys, table)
    return {"sam.table": table, f"sam.resized.{queries}.{keys}": gathered}


def beit_resized(old: int, new: int) -> dict[str, Any]:
    """BEiT's biases (heads, queries, keys) of a window of another size than its table's, of two heads."""
    torch = library("torch")
    torch.manual_seed(4)
    config = library("transformers").BeitConfig(
        num_attention_heads=2, image_size=16 * old, patch_size=16, hidden_size=8
    )
    layer = modeling("beit").BeitRelativePositionBias(config)
    layer.relative_position_bias_table.data = torch.randn_like(layer.relative_position_bias_table)
    bias = layer((new, new))
    return {"beit.table": layer.relative_position_bias_table, "beit.resized": bias.squeeze(0)}


def xlnet_backward(queries: int, keys: int, dim: int) -> Any:
    kind = modeling("xlnet").XLNetModel
    model = SimpleNamespace(d_model=dim, attn_type="bi", bi_data=True, clamp_len=-1)
    model.positional_embedding = kind.positional_embedding
    return kind.relative_positional_encoding(model, queries, keys, 2)[:, 1]


def parakeet(length: int, dim: int) -> Any:
    config = SimpleNamespace(max_position_embeddings=length, hidden_size=dim)
    return modeling("parakeet").ParakeetEncoderRelPositionalEncoding(config)(library("torch").zeros(1, length, dim))[0]


def fastspeech2(length: int, dim: int) -> Any:
    config = SimpleNamespace(hidden_size=dim)
    kind = modeling("fastspeech2_conformer").FastSpeech2ConformerRelPositionalEncoding
    embedding = kind(config, {"positional_dropout_rate": 0.0})
    return embedding(library("torch").zeros(1, length, dim))[1][0]


def seamless(length: int, dim: int) -> Any:
    config = SimpleNamespace(max_source_positions=2 * length, hidden_size=dim)
    return modeling("seamless_m4t").SeamlessM4TConformerRelPositionalEmbedding(config)(
        library("torch").zeros(1, length, dim)
    )[0]


def gemma3n(dim: int) -> Any:
    torch = library("torch")
    ahead, behind = GEMMA
    config = SimpleNamespace(
        conf_num_attention_heads=1,
        hidden_size=dim,
        conf_attention_context_left=behind,
        conf_attention_context_right=ahead - 1,
    )
    embedding = modeling("gemma3n").Gemma3nAudioRelativePositionEmbedding(config)
    positions = torch.arange(embedding.max_backward, -embedding.max_forward - 1, -1)
    return embedding._get_timing_signal_1d_pos(positions[None], torch.float32)[0]


def usages() -> Numbers:
    """What the rows of `used_by` are compared with."""
    torch, timm = library("torch"), timm_rel()
    distances = torch.arange(-REACH, REACH + 1)
    whole = {
        **{f"buckets.{name}": of(distances) for name, of in BUCKETS.items()},
        "rows.vits": vits(4, 13),
        "rows.wav2vec2_bert": wav2vec2_bert(90),
        "rows.speecht5": torch.from_numpy(speecht5(400, 160)[::40]),
        "rows.deberta_v1": deberta_v1(600)[::60],
        "index.levit": levit(14)[:9],
        "index.levit.subsampled": levit_subsampled(14, 2)[::3],
        "index.timm": timm.gen_relative_position_index((7, 7)),
        "index.timm.class_token": timm.gen_relative_position_index((14, 14), class_token=True)[:9],
        "cr": timm.gen_relative_log_coords(CR_WINDOW, mode="cr"),
        **{f"axis.{model}.{q}.{k}": axis(model, q, k) for model in ("sam", "vitdet") for q, k in AXES},
        **sam_resized(5, 5),
        **sam_resized(8, 6),
        **sam_resized(3, 9),
        **beit_resized(4, 6),
        "sinusoids.xlnet.backward": xlnet_backward(4, 7, DIM),
        "sinusoids.parakeet": parakeet(LENGTH, DIM),
        "sinusoids.fastspeech2": fastspeech2(LENGTH, DIM),
        "sinusoids.seamless": seamless(LENGTH, DIM),
        "sinusoids.gemma3n": gemma3n(DIM),
    }
    arrays = {name: np.asarray(tensor.detach()) for name, tensor in whole.items()}
    return {name: array.astype(np.int64) if array.dtype == np.int32 else array for name, array in arrays.items()}


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
    return arrays | usages()


if __name__ == "__main__":
    save("relative", build(), "torch", "transformers", "timm", "x-transformers", "numpy")
