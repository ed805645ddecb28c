"""Sinusoids of relative positions, for attention that scores distances apart from contents (Dai et al., 2019)."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.arithmetics import Angles, float32_notes
from service.engine.attention.relative_scores import Span, ends
from service.engine.attention.scores import extent
from service.engine.frequencies import wave_bytes
from service.engine.positions import Values
from service.engine.quantities import LARGEST_EXACT_INTEGER, Dim, DType, Integer, Keys, Length, Queries
from service.engine.rounding import DTYPES
from service.engine.scheme import (
    ITEMSIZE,
    Array,
    Example,
    Facts,
    Inputs,
    Scheme,
    Sequence,
    Tensor,
    Tensors,
    Usage,
    unused,
)
from service.engine.sinusoids import SinusoidalTable, fastest, table_angles, write_table


class TransformerXL(SinusoidalTable):
    """Parameters of `biases/transformer-xl`."""

    length: Length | None = None
    queries: Queries | None = None
    keys: Keys | None = None
    dim: Dim
    span: Span = "both"
    clamp_len: Annotated[
        Integer | None,
        Field(ge=1, le=LARGEST_EXACT_INTEGER, description="Positions beyond it, either way, are taken to be it."),
    ] = None
    direction: Annotated[
        Literal["forward", "backward"],
        Field(
            description="`forward`: the rows of `span`, from the farthest key behind on; `backward`: their positions "
            "negated, which XLNet with bi_data gives the second half of a batch."
        ),
    ] = "forward"
    dtype: DType = "float32"


def _ends(params: TransformerXL) -> tuple[int, int]:
    """The first position and the last: they descend, or negated ascend."""
    queries, keys, _ = extent(params.length, params.queries, params.keys, None)
    return ends(params.span, queries, keys)


def _tensors(params: TransformerXL, _inputs: Inputs) -> Tensors:
    first, last = _ends(params)
    fastest(params, params.dim)
    return {"encoding": Tensor(("relative_position", "channel"), (first - last + 1, params.dim), params.dtype)}


def _rows(params: TransformerXL, _inputs: Inputs, state: Angles, _tensor: str, start: int, stop: int) -> Array:
    first, _ = _ends(params)
    forward = params.direction == "forward"
    ascending: Values = range(first - stop + 1, first - start + 1) if forward else range(start - first, stop - first)
    if params.clamp_len is not None:
        ascending = np.clip(np.array(ascending, np.float64), -params.clamp_len, params.clamp_len)
    out = np.empty((stop - start, params.dim), DTYPES[params.dtype])
    write_table(params, state, ascending, out[::-1] if forward else out)
    return out


def _facts(params: TransformerXL, _inputs: Inputs) -> Facts:
    first, last = _ends(params)
    sign = 1 if params.direction == "forward" else -1
    rows = first - last + 1
    ends: Facts = {"first_position": sign * first, "last_position": sign * last}
    return ends | {"rows": rows, "table_bytes_per_channel": ITEMSIZE[params.dtype] * rows}


def _notes(params: TransformerXL, _inputs: Inputs) -> list[str]:
    idle = ("queries",) if params.span in ("legacy", "xlnet-uni") and params.keys is not None else ()
    return float32_notes(params.arithmetic) + unused(params, idle, f"span={params.span}")


def _sequence(params: TransformerXL, _inputs: Inputs) -> Sequence:
    """Row r stands at position first - r, or its negation: row -first + r of one endless table."""
    key = params.model_copy(update={"length": None, "queries": None, "keys": None, "span": "both"})
    return Sequence(key, -_ends(params)[0])


DESCRIPTION = """\
The sinusoidal encoding of distances query - key, row by row from the farthest key behind to the farthest ahead: `angle
= p w_k`, `w_k = base^(-2k/dim)`, p = T - 1, T - 2, ..., -(T - 1) for `length` T (`span` and `keys` choose other ends;
`clamp_len` bounds |p|; `direction=backward` negates p). The model projects these rows and shifts its scores so that
row p meets each pair at distance p.

**Channel order**: `layout=interleaved` is sin w_0, cos w_0, sin w_1, ... (Conformer and its kin); `sin-cos` all sines,
then all cosines (Transformer-XL, XLNet). Axes: (relative_position, channel)."""

SCHEME: Scheme[TransformerXL, Angles] = Scheme(
    family="biases",
    name="transformer-xl",
    title="Relative sinusoids",
    explanation=(
        "Sines and cosines of distances instead of positions: attention asks how far behind a key lies, so that a "
        "segment of text can look back into the one before. The rows go from the farthest key to the nearest."
    ),
    description=DESCRIPTION,
    reference="Dai et al., Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context, 2019",
    params=TransformerXL,
    rounding="correct",
    tensors=_tensors,
    sequence=_sequence,
    prepare=lambda params, _inputs: table_angles(params, params.dim),
    rows=_rows,
    facts=_facts,
    notes=_notes,
    state_bytes=lambda params, _inputs: wave_bytes(params.dim),
    examples=(
        Example("Three positions of four channels", {"length": "3", "dim": "4"}),
        Example(
            "Transformer-XL: two queries, a memory of three",
            {"queries": "2", "keys": "5", "dim": "4", "span": "legacy", "layout": "sin-cos"},
        ),
        Example("Distances clamped at two", {"length": "5", "dim": "6", "clamp_len": "2", "dtype": "float64"}),
    ),
    used_by=(
        Usage("Conformer, Wav2Vec2-Conformer, SeamlessM4T, FastSpeech2-Conformer, Parakeet", {}, "conformer"),
        Usage("ESPnet's legacy relative positions", {"span": "legacy"}, "espnet-legacy"),
        Usage("Transformer-XL", {"span": "legacy", "layout": "sin-cos"}, "transformer-xl"),
        Usage("XLNet (attn_type bi)", {"span": "xlnet-bi", "layout": "sin-cos"}, "xlnet"),
        Usage("XLNet (attn_type uni)", {"span": "xlnet-uni", "layout": "sin-cos"}, "xlnet-uni"),
        Usage(
            "XLNet (bi_data, second half of the batch)",
            {"span": "xlnet-bi", "layout": "sin-cos", "direction": "backward"},
            "xlnet-backward",
        ),
        Usage(
            "Gemma 3n audio: queries one more than the keys ahead, keys one more than those behind",
            {"layout": "sin-cos", "frequency_shift": "1"},
            "gemma3n-audio",
        ),
    ),
    properties={
        "distance": "scores have a part of content and a part of distance",
        "caching": "keys are kept as they are, and meet a row for each distance",
        "implementation": "rows for distances in every layer, projected and multiplied with queries",
        "learned parameters": "none here; the model projects the rows",
        "memory per head": "2 T - 1 rows as wide as the head, once projected: "
        "table_bytes_per_channel in the facts, times that width",
        "extrapolates": "defined at any distance",
    },
)
