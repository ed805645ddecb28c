"""Sinusoidal tables of the libraries that the catalogue names, frozen: `python -m tests.golden.make_sinusoids`.

`name.dim` is the table (rows, dim; float32) of a library at the rows `ROWS` out of the `LENGTH` that it makes;
`LIBRARIES` says how, and which widths. `padded.dim` (batch, length, dim) is what fairseq's module makes of `TOKENS`,
and `frequencies` (256,) those of the module of the PyTorch introductions at width 512.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.frozen import Numbers, library, save
from tests.golden.make_relative import modeling

LENGTH = 600
ROWS = [0, 1, 2, 3, 40, 299, 598, 599]
EVEN, ODD_TOO = (6, 34, 96), (6, 34, 7, 33)
PADDING = 1
TOKENS = [[1, 1, 5, 6, 7], [9, 8, 7, 1, 1], [4, 1, 4, 1, 4]]

Singles = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Library:
    """A library's table of `LENGTH` rows, the widths it is asked for, and the arithmetic it works in."""

    table: Callable[[int], Any]
    dims: tuple[int, ...] = EVEN
    arithmetic: str = "float32"
    """`float32`: frequencies exp(k * c); `power`: powers of the base; `float64`: numpy, rounded at the end."""


def introduction(length: int, dim: int) -> Any:
    """The module of the PyTorch introductions, written from its formula, (length, dim)."""
    torch = library("torch")
    times, frequencies = torch.arange(length).float().unsqueeze(1), introduction_frequencies(dim)
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(times * frequencies)
    table[:, 1::2] = torch.cos(times * frequencies)[:, : dim // 2]
    return table


def introduction_frequencies(dim: int) -> Any:
    """exp(-2k ln(10000) / dim) in float32."""
    torch = library("torch")
    return torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))


def created(model: str, name: str) -> Callable[[int], Any]:
    """Models whose table is written into a tensor."""

    def table(dim: int) -> Any:
        out = library("torch").empty(LENGTH, dim)
        getattr(modeling(model), name)(LENGTH, dim, out)
        return out.detach()

    return table


def weight(model: str, name: str) -> Callable[[int], Any]:
    """Models whose table is the weight of an embedding."""
    return lambda dim: getattr(modeling(model), name)(LENGTH, dim).create_weight()


def embedding(model: str, name: str, *more: int) -> Callable[[int], Any]:
    """Models whose table a static function returns."""
    return lambda dim: getattr(modeling(model), name).get_embedding(LENGTH, dim, *more)


def padded(dim: int) -> Any:
    """What fairseq's module, as FSMT has it, makes of `TOKENS`: (batch, length, dim)."""
    module = modeling("fsmt").SinusoidalPositionalEmbedding(16, dim, PADDING)
    module.make_weight(16, dim, PADDING)
    return module(library("torch").tensor(TOKENS)).detach()


def ctrl(dim: int) -> Any:
    return modeling("ctrl").positional_encoding(LENGTH, dim, library("torch").float32)


def transformer_xl(dim: int) -> Any:
    """Transformer-XL's module, which BROS has taken over, at descending positions."""
    torch = library("torch")
    module = modeling("bros").BrosPositionalEmbedding1D(SimpleNamespace(dim_bbox_sinusoid_emb_1d=dim))
    return module(torch.arange(LENGTH - 1, -1, -1.0)[None, None])[0, 0]


def xlnet(dim: int) -> Any:
    """XLNet's positions for 400 keys and 200 queries: 400 ... -199."""
    kind = modeling("xlnet").XLNetModel
    model = SimpleNamespace(
        d_model=dim, attn_type="bi", bi_data=False, clamp_len=-1, positional_embedding=kind.positional_embedding
    )
    return kind.relative_positional_encoding(model, 200, 400)[:, 0]


def pegasus_x(dim: int) -> Any:
    module = modeling("pegasus_x").PegasusXSinusoidalPositionalEmbedding(dim)
    return module(library("torch").zeros(1, LENGTH, dim))[0]


def speecht5(dim: int) -> Any:
    """SpeechT5's table, as it is added before training has changed alpha."""
    module = modeling("speecht5").SpeechT5ScaledPositionalEncoding(0.0, dim, LENGTH)
    return module(library("torch").zeros(1, LENGTH, dim)).detach()[0]


def florence2(dim: int) -> Any:
    sine, cosine = modeling("florence2").Florence2VisionPositionalEmbeddingCosine1D.get_sinusoid_embeddings(LENGTH, dim)
    return library("torch").stack([sine, cosine], dim=2).reshape(LENGTH, dim)


def patchtst(dim: int) -> Any:
    config = SimpleNamespace(positional_encoding_type="sincos", d_model=dim)
    return modeling("patchtst").PatchTSTPositionalEncoding._init_pe(config, LENGTH).detach()


def canary(dim: int) -> Any:
    return modeling("canary").CanaryPositionalEmbedding(LENGTH, dim)(library("torch").arange(LENGTH))


def fun_asr(dim: int) -> Any:
    module = modeling("fun_asr_nano").FunAsrNanoPositionEmbedding(LENGTH + 1, dim)
    return module(library("torch").zeros(1, LENGTH, dim))


def timesfm(dim: int) -> Any:
    config = SimpleNamespace(min_timescale=1, max_timescale=10_000, hidden_size=dim)
    return modeling("timesfm").TimesFmPositionalEmbedding(config)(LENGTH)[0]


def gemma_audio(dim: int) -> Any:
    """Gemma 4's relative positions of an audio context whose half is LENGTH - 1."""
    context = {"attention_chunk_size": 2 * LENGTH - 1, "attention_context_left": 0, "attention_context_right": 0}
    module = modeling("gemma4").Gemma4AudioRelPositionalEncoding(SimpleNamespace(hidden_size=dim, **context))
    return module(library("torch").zeros(1))[0]


def diffusers(dim: int) -> Any:
    return library("diffusers.models.embeddings").SinusoidalPositionalEmbedding(dim, LENGTH).pe[0]


def positional_encodings(dim: int) -> Any:
    """PositionalEncoding1D of an input (batch, length, dim)."""
    module = library("positional_encodings.torch_encodings").PositionalEncoding1D(dim)
    return module(library("torch").zeros(1, LENGTH, dim))[0]


def x_transformers(dim: int) -> Any:
    module = library("x_transformers.x_transformers").ScaledSinusoidalEmbedding(dim)
    return module(library("torch").zeros(1, LENGTH, dim)).detach()


def pi0(dim: int) -> Any:
    """pi0's embedding of flow times 0, 1/599, ... 1."""
    torch = library("torch")
    config = SimpleNamespace(dit_config=SimpleNamespace(hidden_size=dim), min_period=4e-3, max_period=4.0)
    return modeling("pi0").PI0TimestepEmbeddings(config)(torch.arange(LENGTH) / torch.tensor(LENGTH - 1.0))


def gemma3n(dim: int) -> Any:
    """Gemma 3n's signal at the same positions."""
    torch = library("torch")
    context = {"conf_attention_context_left": 3, "conf_attention_context_right": 0, "conf_num_attention_heads": 2}
    module = modeling("gemma3n").Gemma3nAudioRelativePositionEmbedding(SimpleNamespace(hidden_size=dim, **context))
    return module._get_timing_signal_1d_pos(torch.arange(LENGTH - 1, -1, -1)[None], torch.float32)[0]


FAIRSEQ = {
    "m2m100": ("m2m_100", "M2M100SinusoidalPositionalEmbedding"),
    "nllb_moe": ("nllb_moe", "NllbMoeSinusoidalPositionalEmbedding"),
    "xglm": ("xglm", "XGLMSinusoidalPositionalEmbedding"),
    "seamless_m4t": ("seamless_m4t", "SeamlessM4TSinusoidalPositionalEmbedding"),
    "speech_to_text": ("speech_to_text", "Speech2TextSinusoidalPositionalEmbedding"),
    "kosmos2": ("kosmos2", "Kosmos2TextSinusoidalPositionalEmbedding"),
    "trocr": ("trocr", "TrOCRSinusoidalPositionalEmbedding"),
    "fsmt": ("fsmt", "SinusoidalPositionalEmbedding"),
}
LIBRARIES = {
    **{name: Library(embedding(*where, PADDING), ODD_TOO) for name, where in FAIRSEQ.items()},
    "introduction": Library(lambda dim: introduction(LENGTH, dim), ODD_TOO),
    "whisper": Library(lambda dim: modeling("whisper").sinusoids(LENGTH, dim)),
    "qwen_omni": Library(
        lambda dim: modeling("qwen2_5_omni").SinusoidsPositionEmbedding(LENGTH, dim).positional_embedding
    ),
    "qwen3_omni": Library(
        lambda dim: modeling("qwen3_omni_moe").SinusoidsPositionEmbedding(LENGTH, dim).positional_embedding
    ),
    "time_series": Library(
        weight("time_series_transformer", "TimeSeriesSinusoidalPositionalEmbedding"), ODD_TOO, "float64"
    ),
    "flaubert": Library(created("flaubert", "create_sinusoidal_embeddings"), ODD_TOO, "float64"),
    "musicgen_melody": Library(embedding("musicgen_melody", "MusicgenMelodySinusoidalPositionalEmbedding"), ODD_TOO),
    "gemma3n": Library(gemma3n),
    "marian": Library(weight("marian", "MarianSinusoidalPositionalEmbedding"), ODD_TOO, "float64"),
    "pegasus": Library(weight("pegasus", "PegasusSinusoidalPositionalEmbedding"), ODD_TOO, "float64"),
    "roformer": Library(weight("roformer", "RoFormerSinusoidalPositionalEmbedding"), ODD_TOO, "float64"),
    "informer": Library(weight("informer", "InformerSinusoidalPositionalEmbedding"), ODD_TOO, "float64"),
    "autoformer": Library(weight("autoformer", "AutoformerSinusoidalPositionalEmbedding"), ODD_TOO, "float64"),
    "xlm": Library(created("xlm", "create_sinusoidal_embeddings"), ODD_TOO, "float64"),
    "distilbert": Library(created("distilbert", "create_sinusoidal_embeddings"), ODD_TOO, "float64"),
    "videomae": Library(
        lambda dim: modeling("videomae").get_sinusoid_encoding_table(LENGTH, dim)[0], ODD_TOO, "float64"
    ),
    "ctrl": Library(ctrl, EVEN, "power"),
    "transformer_xl": Library(transformer_xl, EVEN, "power"),
    "xlnet": Library(xlnet, EVEN, "power"),
    "musicgen": Library(embedding("musicgen", "MusicgenSinusoidalPositionalEmbedding"), ODD_TOO),
    "pegasus_x": Library(pegasus_x),
    "speecht5": Library(speecht5),
    "florence2": Library(florence2),
    "fun_asr": Library(fun_asr),
    "canary": Library(canary),
    "patchtst": Library(patchtst),
    "timesfm": Library(timesfm, (2, *EVEN)),
    "gemma_audio": Library(gemma_audio),
    "diffusers": Library(diffusers),
    "x_transformers": Library(x_transformers, EVEN, "power"),
    "pi0": Library(pi0, EVEN, "power"),
    "positional_encodings": Library(positional_encodings, ODD_TOO, "power"),
}


def build() -> Numbers:
    """Everything the file holds, by name."""
    arrays: Numbers = {"frequencies": np.asarray(introduction_frequencies(512))}
    arrays |= {f"padded.{dim}": np.asarray(padded(dim)) for dim in ODD_TOO}
    for name, kind in LIBRARIES.items():
        for dim in kind.dims:
            table: Singles = np.asarray(kind.table(dim))[ROWS]
            if table.shape != (len(ROWS), dim) or table.dtype != np.float32 or not np.isfinite(table).all():
                raise ValueError(f"{name} is no table of that shape: {table.shape}")
            arrays[f"{name}.{dim}"] = table
    return arrays


if __name__ == "__main__":
    save("sinusoids", build(), "torch", "transformers", "diffusers", "x-transformers", "positional-encodings", "numpy")
