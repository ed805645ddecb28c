"""ALiBi's bias, for tables and for sums: its forms, and tokens that an attention mask counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.attention.biased import KEY_TOKENS, Bias, Place, Write, token_positions
from service.engine.attention.relative import PIECE, Integers, parts, write_by_distance
from service.engine.attention.slopes import Factors, Slopes, factors, refuse_too_many, steepest
from service.engine.errors import Refusal
from service.engine.frequencies import REAL_BYTES, refuse_overflow
from service.engine.quantities import Integer
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Inputs, Usage

BiasForm = Annotated[
    Literal["relative", "symmetric", "key-only", "last-key"],
    Field(
        description="`relative` m (j - i): minus m times the distance back, positive for keys ahead (mask those); "
        "`symmetric` -m |i - j|; `key-only` m j, and `last-key` m (j - (keys - 1)), one row a head: equal to relative "
        "under softmax."
    ),
]


class Linear(Slopes):
    """Parameters of the bias, apart from its sizes."""

    form: BiasForm = "relative"
    head_dim: Annotated[
        Integer | None,
        Field(
            ge=1,
            le=65_536,
            description="The bias is divided by sqrt(head_dim), as where scores and bias are scaled together (Falcon); "
            "not, unless given.",
        ),
    ] = None


def _multipliers(form: str, keys: Integers, query: Integers | int) -> Integers:
    """What the slopes are multiplied by, for key positions and the positions that they are measured from."""
    return -np.abs(keys - query) if form == "symmetric" else keys - query


@dataclass(frozen=True, slots=True)
class Lines:
    """Biases of some heads at some distances, in the number format of the answer."""

    factors: Factors
    dtype: str
    divisor: float

    def at(self, heads: slice, multipliers: Integers) -> Array:
        """(heads, distances), +0 at distance 0."""
        values = self.factors.times(heads, multipliers, self.dtype)
        if self.divisor == 1:
            return values
        # As PyTorch divides by a Python number: in float32, or in float64 where the tensor is.
        wide = np.dtype(np.float64 if self.dtype == "float64" else np.float32)
        divisor = float(nearest(np.array([self.divisor]), wide)[0])
        return nearest(nearest(values.astype(np.float64) / divisor, wide).astype(np.float64), DTYPES[self.dtype])


def _check(params: Linear, inputs: Inputs, place: Place) -> None:
    refuse_too_many(params, place.heads)
    size, one_row = place.size, _one_row(params)
    farthest = (size.keys - 1 if one_row else size.largest_distance) / sqrt(params.head_dim or 1)
    refuse_overflow(farthest * steepest(params, place.heads), place.dtype, "the bias")
    if "attention_mask" in inputs and not one_row and not 0 <= size.offset <= size.keys - size.queries:
        raise Refusal(
            "offset",
            "out_of_range",
            f"queries stand at {size.offset} ... {size.offset + size.queries - 1}, and attention_mask has the keys 0 "
            f"... {size.keys - 1}: with a mask each query is one of the keys; form=key-only needs no queries",
        )


def _one_row(params: Linear) -> bool:
    return params.form in ("key-only", "last-key")


def _prepare(params: Linear, inputs: Inputs, place: Place) -> Write:
    exact = params.arithmetic == "exact"
    divisor = params.head_dim or 1
    lines = Lines(factors(params, place.heads, divisor if exact else 1), place.dtype, 1 if exact else sqrt(divisor))
    positions = token_positions(inputs)
    if positions is not None:
        return Counted(params.form, lines, place, positions).write
    return OneRow(params.form, lines, place).write if _one_row(params) else Sliding(params.form, lines, place).write


@dataclass(frozen=True, slots=True)
class Sliding:
    """The bias depends on the distance alone."""

    form: str
    lines: Lines
    place: Place

    def write(self, start: int, out: Array) -> None:
        def lines(heads: slice, distances: Integers) -> Array:
            return self.lines.at(heads, _multipliers(self.form, distances, 0))

        write_by_distance(lines, self.place.heads, self.place.size, start, out)


@dataclass(frozen=True, slots=True)
class OneRow:
    """The bias depends on the key alone, counted from the first or from the last."""

    form: str
    lines: Lines
    place: Place

    def write(self, start: int, out: Array) -> None:
        first = 0 if self.form == "key-only" else self.place.size.keys - 1
        for heads, _, key, part in parts(self.place.heads, self.place.size.queries, start, out):
            part[...] = self.lines.at(heads, np.arange(key, key + part.shape[2]) - first)[:, None]


@dataclass(frozen=True, slots=True)
class Counted:
    """Keys (and queries, which are among them) stand where a mask counts their tokens; (batch, keys)."""

    form: str
    lines: Lines
    place: Place
    positions: Integers

    def write(self, start: int, out: Array) -> None:
        for entry, row, rows in self._pieces(start, out):
            for heads, query, key, part in parts(self.place.heads, self.place.size.queries, row, rows):
                keys = self.positions[entry, None, key : key + part.shape[2]]
                multipliers = _multipliers(self.form, keys, self._origins(entry, query, part.shape[1])[:, None])
                least = int(multipliers.min())
                line = np.arange(least, int(multipliers.max()) + 1)
                part[...] = self.lines.at(heads, line)[:, multipliers - least]

    def _pieces(self, start: int, out: Array) -> Iterator[tuple[int, int, Array]]:
        """Rows of one entry of the batch, and not too many: entry, first row within it, rows of the answer."""
        each, row = self.place.heads * self.place.size.queries, start
        while row < start + len(out):
            entry, within = divmod(row, each)
            rows = out[row - start :][: min(each - within, max(1, PIECE // out.shape[1]))]
            yield entry % len(self.positions), within, rows
            row += len(rows)

    def _origins(self, entry: int, query: int, count: int) -> Integers:
        """The positions from which distances of so many queries are counted."""
        own: Integers = self.positions[entry]
        if self.form == "key-only":
            return np.zeros(1, np.int64)
        if self.form == "last-key":
            return own[-1:]
        first = query + self.place.size.offset
        return own[first : first + count]


def _notes(params: Linear, _inputs: Inputs) -> list[str]:
    """What deserves saying about the form and the arithmetic of the bias."""
    said = {
        "relative": ["form=relative is positive where a key lies ahead of its query: use it under a causal mask"],
        "key-only": ["form=key-only leaves out a constant per row, which softmax does not see"],
        "last-key": ["form=last-key leaves out a constant per row, which softmax does not see"],
        "symmetric": [],
    }[params.form]
    if params.arithmetic != "exact":
        said.append(f"arithmetic={params.arithmetic} rounds slopes and products on the way, as a library does")
    return said


def _state_bytes(_params: Linear, inputs: Inputs, place: Place) -> int:
    counted = inputs["attention_mask"].size if "attention_mask" in inputs else 0
    return REAL_BYTES * place.heads + 8 * counted


BIAS: Bias[Linear] = Bias(
    check=_check,
    prepare=_prepare,
    one_row=_one_row,
    inputs=(KEY_TOKENS,),
    notes=_notes,
    state_bytes=_state_bytes,
)

USED_BY = (
    Usage("the paper's fairseq code", {"form": "key-only", "arithmetic": "float32"}, "fairseq"),
    Usage("BLOOM (with padding: attention_mask)", {"form": "key-only", "arithmetic": "float32-powers"}, "bloom"),
    Usage("MPT, llm-foundry", {"form": "last-key", "arithmetic": "float32-reciprocals"}, "mpt"),
    Usage("keras-hub AlibiBias in float32", {"form": "last-key", "arithmetic": "float32"}, "keras-hub"),
    Usage("x-transformers", {"form": "symmetric", "arithmetic": "float32"}, "x-transformers"),
    Usage("MLX nn.ALiBi in float32", {"form": "symmetric", "arithmetic": "float32"}, "mlx"),
)
