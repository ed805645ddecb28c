"""Learned position tables before they are learned: random rows as libraries initialise them."""

from decimal import localcontext
from fractions import Fraction
from math import nextafter
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.frequencies import refuse_overflow
from service.engine.numbers.pairs import Floats, two_product
from service.engine.numbers.random_numbers import RowNumbers, normal, truncated_normal, uniform
from service.engine.numbers.reals import MANY_DIGITS, real
from service.engine.numbers.sums import write_line
from service.engine.positions import POSITIONS_INPUT, where
from service.engine.quantities import Dim, DType, Integer, Real, Seed
from service.engine.rounding import DTYPES, nearest_of_sum
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Sequence, Tensor, Tensors, Usage, unused
from service.engine.table_rows import TableRows, first_row, padding_row, refuse_outside, rows_at

MOST_ROWS = 2**40
BLOCK_VALUES = 16384
MOST_SIGMAS = 9  # more than any normal number that 52 bits give


class Learned(TableRows):
    """Parameters of `encodings/learned`."""

    rows: Annotated[
        Integer,
        Field(
            ge=1,
            le=MOST_ROWS,
            description="Rows of the table, those in front of position 0 and of class tokens included "
            "(max_position_embeddings of BERT and RoBERTa, n_positions of GPT-2, max_position_embeddings + 2 of OPT, "
            "patches + 1 of ViT).",
        ),
    ]
    dim: Dim
    seed: Seed = 0
    distribution: Annotated[
        Literal["normal", "truncated-normal", "uniform"],
        Field(
            description="`normal` mean 0; `truncated-normal` the same, cut off at `truncation`; `uniform` between "
            "`low` and `high`."
        ),
    ] = "normal"
    spread: Annotated[
        Literal["given", "inverse-sqrt-dim", "glorot"],
        Field(
            description="The standard deviation: `given` as `std` (uniform: `low`, `high`); `inverse-sqrt-dim` "
            "1/sqrt(dim); `glorot` sqrt(2/(rows + dim)). A uniform distribution lies within sqrt(3) of them."
        ),
    ] = "given"
    std: Annotated[
        Real | None,
        Field(ge=1e-9, le=1e9, description="Standard deviation, of a truncated one before it is cut (0.02)."),
    ] = None
    truncation: Annotated[
        Literal["absolute", "sigmas"],
        Field(
            description="Where a truncated normal ends: `absolute` at -2 and 2 (PyTorch, timm), which for std=0.02 is "
            "nowhere; `sigmas` at two standard deviations (TensorFlow, JAX)."
        ),
    ] = "absolute"
    low: Annotated[Real | None, Field(ge=-1e9, le=1e9, description="Lower end of a uniform distribution (0).")] = None
    high: Annotated[Real | None, Field(ge=-1e9, le=1e9, description="Upper end of a uniform distribution (1).")] = None
    dtype: DType = "float32"


def _root(square: Fraction) -> float:
    """The float64 nearest to a square root."""
    with localcontext(MANY_DIGITS):
        return float(real(square).sqrt())


def _resolve(params: Learned, _inputs: Inputs) -> Learned:
    """With `std`, or `low` and `high`, filled in; refuses those that decide nothing."""
    decided = _spread(params)
    for name in ("std", "low", "high"):
        given = getattr(params, name)
        if given is not None and given != decided.get(name):
            choice = f"distribution={params.distribution}, spread={params.spread}"
            raise Refusal(name, "conflict", f"{name} decides nothing with {choice}: leave it out")
    return params.model_copy(update={**decided, "padding_idx": padding_row(params)})


def _spread(params: Learned) -> dict[str, float]:
    """`std` of a normal distribution, `low` and `high` of a uniform one."""
    uniformly = params.distribution == "uniform"
    if params.spread == "given" and uniformly:
        return {"low": 0.0 if params.low is None else params.low, "high": 1.0 if params.high is None else params.high}
    if params.spread == "given":
        return {"std": 0.02 if params.std is None else params.std}
    variance = Fraction(1, params.dim) if params.spread == "inverse-sqrt-dim" else Fraction(2, params.rows + params.dim)
    if uniformly:
        return {"low": -_root(3 * variance), "high": _root(3 * variance)}
    return {"std": _root(variance)}


def _whole(params: Learned, inputs: Inputs) -> bool:
    """Whether the table itself is asked for: no positions are."""
    return params.length is None and params.positions is None and "positions" not in inputs


def _tensors(params: Learned, inputs: Inputs) -> Tensors:
    filled = _resolve(params, inputs)
    if filled.low is not None and filled.high is not None and filled.low >= filled.high:
        detail = f"high is {filled.high:g} and low {filled.low:g}; high must be larger"
        raise Refusal("high", "out_of_range", detail, limit=filled.low, requested=filled.high)
    refuse_overflow(_largest(filled), params.dtype, "a random number")
    _refuse_few_rows(params)
    if _whole(params, inputs):
        if params.offset:
            raise Refusal("offset", "conflict", "offset counts positions: give length= too, or leave it out")
        return {"encoding": Tensor(("position", "channel"), (params.rows, params.dim), params.dtype)}
    places = where(params, inputs)
    refuse_outside(params, places, params.rows)
    return {"encoding": Tensor((*places.axes, "channel"), (*places.shape, params.dim), params.dtype)}


def _largest(filled: Learned) -> float:
    """What no number of the table goes beyond."""
    if filled.low is not None and filled.high is not None:
        return max(-filled.low, filled.high)
    std = _spread(filled)["std"]
    if filled.distribution == "normal":
        return MOST_SIGMAS * std
    return 2 * std if filled.truncation == "sigmas" else min(MOST_SIGMAS * std, 2.0)


def _refuse_few_rows(params: Learned) -> None:
    least = first_row(params) + 1
    if params.rows < least:
        detail = f"rows is {params.rows}; with offset_rule={params.offset_rule} position 0 has row {least - 1}"
        raise Refusal("rows", "out_of_range", f"{detail}: {least} rows or more would do", limit=least)


def _rows(params: Learned, inputs: Inputs, state: Learned, _tensor: str, start: int, stop: int) -> Array:
    rows = range(start, stop) if _whole(params, inputs) else rows_at(params, inputs, start, stop)
    out = np.empty((stop - start, params.dim), DTYPES[params.dtype])
    step = max(1, BLOCK_VALUES // params.dim)
    for first in range(0, len(rows), step):
        _write(state, rows[first : first + step], out[first : first + step])
    return out


def _write(params: Learned, rows: RowNumbers, out: Array) -> None:
    """Rows of the endless table whose first rows are the table."""
    if params.low is not None and params.high is not None:
        drawn = np.empty(out.size, out.dtype)
        write_line(uniform(params.seed, rows, params.dim).reshape(-1), params.high - params.low, params.low, drawn)
        out[...] = drawn.reshape(out.shape)
    else:
        product = two_product(_numbers(params, rows), np.full((1, 1), _spread(params)["std"]))
        out[...] = nearest_of_sum(*product, out.dtype)
    out[np.asarray(rows) == padding_row(params)] = 0


def _numbers(params: Learned, rows: RowNumbers) -> Floats:
    """Normal numbers of standard deviation 1."""
    if params.distribution == "normal":
        return normal(params.seed, rows, params.dim)
    bound = 2.0 if params.truncation == "sigmas" else _largest_bound(_spread(params)["std"])
    return truncated_normal(params.seed, rows, params.dim, bound)


def _largest_bound(std: float) -> float:
    """2 / std, so that std times it is not above 2."""
    bound = 2.0 / std
    return nextafter(bound, 0.0) if Fraction(bound) * Fraction(std) > 2 else bound


def _sequence(params: Learned, inputs: Inputs) -> Sequence | None:
    """Tables of one seed are the first rows of one endless table, unless their number decides the spread."""
    if params.positions is not None or "positions" in inputs:
        return None
    without = {"length": None, "offset": 0, "rows": params.rows if params.spread == "glorot" else 1}
    start = 0 if params.length is None else params.offset + first_row(params)
    return Sequence(params.model_copy(update=without), start)


def _facts(params: Learned, _inputs: Inputs) -> Facts:
    first = first_row(params)
    return {"first_row": first, "last_position": params.rows - 1 - first}


def _notes(params: Learned, _inputs: Inputs) -> list[str]:
    if params.distribution != "truncated-normal":
        return unused(params, ("truncation",), f"distribution={params.distribution}")
    std = _spread(params)["std"]
    if params.truncation == "sigmas" or MOST_SIGMAS * std > 2:
        return []
    return [f"-2 and 2 are {2 / std:.4g} standard deviations away: no number is cut off"]


DESCRIPTION = """\
A learned table before training: row r, channel k holds random number (r, k) of `seed`, times `std` (`normal`,
`truncated-normal`), or `low + (high - low) u` (`uniform`). Without positions the whole table is answered; with `length`
or positions, their rows: p, p + 2 or p + padding_idx + 1 by `offset_rule`. A position beyond the last row is refused,
for a table holds no formula. With `offset_rule=roberta` the row padding_idx is zero.

The numbers are drawn by address: Philox4x32-10 with the seed as key and the counter (k, r mod 2^32, r div 2^32, 0); 52
bits of its first two words make the uniform u in (0, 1), the inverse of the normal distribution (Wichura's AS 241 in
float64) the normal number. They are not the numbers of a library's generator: their distribution is. The product with
these float64 is exact and rounded once; (high - low) is a float64.

**Channel order**: as drawn. **Axes**: (position, channel), one position a row of the table."""

SCHEME: Scheme[Learned, Learned] = Scheme(
    family="encodings",
    name="learned",
    title="Learned position table as it is initialised",
    explanation=(
        "The simplest table: one row of trained numbers for each position, up to a fixed length. Before training the "
        "rows are random, which is what the picture shows; after the last row there is nothing, so such a model cannot "
        "read on."
    ),
    description=DESCRIPTION,
    reference="Gehring et al., Convolutional Sequence to Sequence Learning, 2017; Devlin et al., BERT, 2019",
    params=Learned,
    rounding="correct",
    tensors=_tensors,
    sequence=_sequence,
    prepare=_resolve,
    rows=_rows,
    resolve=_resolve,
    facts=_facts,
    notes=_notes,
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("Four rows as BERT begins with them", {"rows": "4", "dim": "6", "seed": "7"}),
        Example(
            "The row of OPT's position 2047, its last",
            {"rows": "2050", "dim": "4", "offset_rule": "opt", "positions": "2047"},
        ),
        Example("RoBERTa's first rows", {"rows": "5", "dim": "4", "offset_rule": "roberta"}),
        Example("Rows for a batch", {"rows": "4", "dim": "6"}, {"positions": [[0, 1, 2], [3, 0, 1]]}),
    ),
    used_by=(
        Usage("BERT, ELECTRA", {"rows": "512", "std": "0.02"}, preset="bert"),
        Usage("GPT-2", {"rows": "1024", "std": "0.02"}, preset="gpt2"),
        Usage("OPT", {"rows": "2050", "std": "0.02", "offset_rule": "opt"}, preset="opt"),
        Usage("BART", {"rows": "1026", "std": "0.02", "offset_rule": "opt"}, preset="bart"),
        Usage("RoBERTa, XLM-R, CamemBERT", {"rows": "514", "std": "0.02", "offset_rule": "roberta"}, preset="roberta"),
        Usage("CLIP text encoder", {"rows": "77", "std": "0.02"}, preset="clip"),
        Usage(
            "ViT with 14 x 14 patches", {"rows": "197", "std": "0.02", "distribution": "truncated-normal"}, preset="vit"
        ),
        Usage("XLM", {"rows": "512", "spread": "inverse-sqrt-dim"}, preset="xlm"),
        Usage("SigLIP with 14 x 14 patches", {"rows": "196", "spread": "inverse-sqrt-dim"}, preset="siglip"),
        Usage("CLIP's class embedding", {"rows": "1", "spread": "inverse-sqrt-dim"}, preset="clip-class"),
        Usage("Perceiver's trainable positions of 10000 inputs", {"rows": "10000", "std": "0.02"}, preset="perceiver"),
        Usage(
            "x-transformers, as added (init times dim^-0.5)",
            {"rows": "1024", "spread": "inverse-sqrt-dim"},
            preset="x-transformers",
        ),
        Usage(
            "DETR's learned rows and columns, in its own repository",
            {"rows": "50", "distribution": "uniform"},
            preset="detr",
        ),
    ),
    properties={
        "distance": "none: a row says nothing of its neighbours before training",
        "caching": "added once, before the first layer: keys are as any others",
        "implementation": "a table of parameters, added once",
        "learned parameters": "rows x dim: this is where they start",
        "extrapolates": "no: rows end",
    },
)
