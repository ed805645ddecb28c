"""Rows of the caller's own position table, looked up by the rule of the model that it comes from."""

import numpy as np

from service.engine.attention.attending import flags
from service.engine.errors import Refusal
from service.engine.positions import POSITIONS_INPUT, Where, where
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.table_rows import Indices, TableRows, as_table, first_row, padding_row, refuse_outside, rows_at
from service.engine.vectors import SameDType, answer_dtype, block, refuse_overflow

MOST_AXES = 2


class Lookup(TableRows):
    """Parameters of `learned/lookup`."""

    dtype: SameDType = None


def _tensors(params: Lookup, inputs: Inputs) -> Tensors:
    table = as_table("x", inputs["x"])
    dtype = answer_dtype(params.dtype, table)
    refuse_overflow("x", inputs["x"], dtype)
    if "attention_mask" in inputs:
        places = _masked(params, inputs)
        _refuse_long(places, len(table) - first_row(params))
    else:
        places = where(params, inputs)
        refuse_outside(params, places, len(table))
    return {"encoding": Tensor((*places.axes, "channel"), (*places.shape, table.shape[1]), dtype)}


def _masked(params: Lookup, inputs: Inputs) -> Where:
    """The positions of tokens beside padding: their count from 0, and -1 for padding."""
    for name in ("length", "offset", "positions"):
        if getattr(params, name) or name in inputs:
            raise Refusal(name, "conflict", f"{name} and attention_mask exclude each other; the mask says everything")
    mask = flags("attention_mask", inputs, MOST_AXES)
    if first_row(params) == 0 and not mask.all():
        detail = "attention_mask marks padding, which has no row with offset_rule=none; opt and roberta have one"
        raise Refusal("offset_rule", "conflict", detail)
    positions = np.cumsum(mask, axis=-1, dtype=np.float64) * mask - 1.0
    return Where(mask.shape, positions.reshape(-1))


def _refuse_long(places: Where, most: int) -> None:
    tokens = int(places.ends[1]) + 1
    if tokens > most:
        detail = f"a row of attention_mask has {tokens} ones, and the table has rows for {most} positions"
        raise Refusal("/tensors/attention_mask", "out_of_range", detail, limit=most, requested=tokens)


def _prepare(params: Lookup, inputs: Inputs) -> Indices | None:
    """The rows, where the mask says them."""
    if "attention_mask" not in inputs:
        return None
    return np.asarray(_masked(params, inputs).values, np.int64) + first_row(params)


def _rows(params: Lookup, inputs: Inputs, state: Indices | None, _tensor: str, start: int, stop: int) -> Array:
    table = as_table("x", inputs["x"])
    dtype = answer_dtype(params.dtype, table)
    rows = rows_at(params, inputs, start, stop) if state is None else state[start:stop]
    if isinstance(rows, range):
        return block(table, rows.start, rows.stop, dtype).copy()
    return block(table[rows], 0, len(rows), dtype)


def _facts(params: Lookup, inputs: Inputs) -> Facts:
    rows, first = len(as_table("x", inputs["x"])), first_row(params)
    return {"rows": rows, "first_row": first, "last_position": rows - 1 - first}


DESCRIPTION = """\
Answers row p + f of the table x for every position p: f is 0, or with `offset_rule=opt` 2, with `roberta` padding_idx
+ 1. A position whose row the table has not is refused: a table holds no formula. Values are those of x, rounded once if
`dtype` says so.

With `attention_mask` (1 for tokens, 0 for padding) positions count the tokens, and padding has position -1: row 1 of
OPT, row padding_idx of RoBERTa.

**Axes**: those of the positions, then channel. The body is JSON, one `.npy` (x), or a safetensors file with `x` and, if
you like, `positions` or `attention_mask`."""

SCHEME: Scheme[Lookup, Indices | None] = Scheme(
    family="learned",
    name="lookup",
    title="Rows of your own position table",
    explanation=(
        "Rows of the table that your model has trained, for the positions you name. Some libraries leave the first "
        "rows for padding, and the offset rule counts as they do."
    ),
    description=DESCRIPTION,
    reference="Devlin et al., BERT, 2019; Zhang et al., OPT, 2022; Liu et al., RoBERTa, 2019",
    params=Lookup,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    resolve=lambda params, _inputs: params.model_copy(update={"padding_idx": padding_row(params)}),
    facts=_facts,
    state_bytes=lambda _params, inputs: 8 * inputs["attention_mask"].size if "attention_mask" in inputs else 0,
    inputs=(
        Input("x", "The table: (rows, channels), leading axes of length 1 allowed."),
        POSITIONS_INPUT,
        Input(
            "attention_mask",
            "1 (or true) for tokens, 0 (or false) for padding: (length) or (batch, length).",
            required=False,
            values="flags",
        ),
    ),
    examples=(
        Example(
            "Positions of a batch",
            {},
            {"tensors": {"x": [[0.5, 1], [1.5, 2], [2.5, 3]]}, "positions": [[0, 1, 2], [2, 0, 1]]},
        ),
        Example(
            "Two positions of OPT",
            {"offset_rule": "opt"},
            {"tensors": {"x": [[0], [1], [2.5], [3]]}, "positions": [0, 1]},
        ),
    ),
    used_by=(
        Usage(
            "BERT, GPT-2, CLIP, ViT, Canine; Blenderbot, LED and Whisper's decoder, offset= what is cached",
            {"offset_rule": "none"},
            preset="bert",
        ),
        Usage("OPT, BART, mBART, BioGPT", {"offset_rule": "opt"}, preset="opt"),
        Usage(
            "RoBERTa, XLM-R, CamemBERT, Longformer, MPNet, ESM, LayoutLMv3, Data2VecText",
            {"offset_rule": "roberta"},
            preset="roberta",
        ),
        Usage("ProphetNet", {"offset_rule": "roberta", "padding_idx": "0"}, preset="prophetnet"),
    ),
    properties={"learned parameters": "the table that you send", "extrapolates": "no: rows end"},
)
