"""Rotary position embedding with mixed axes: the cos and sin tables of learned frequencies."""

import numpy as np

from service.engine.arithmetics import float32_notes
from service.engine.positions import Where
from service.engine.quantities import Columns, DType
from service.engine.rotation.rope_mixed import (
    FORMULA,
    FREQUENCIES,
    REFERENCE,
    MixedRule,
    Writer,
    each_its_own,
    frequencies_of,
    points_of,
    state_bytes,
    usages,
    writers_of,
)
from service.engine.rotation.rotary import pair_members
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, unused


class RopeMixed(MixedRule):
    """Parameters of `encodings/rope-mixed`."""

    columns: Columns = "full"
    dtype: DType = "float32"


def _tensors(params: RopeMixed, inputs: Inputs) -> Tensors:
    heads, axes, pairs = frequencies_of(inputs).shape
    points = points_of(inputs, axes)
    places = Where(points.shape[:-1], points.reshape(-1))
    of_heads, count = (("head",), (heads,)) if each_its_own(inputs) else ((), ())
    width = pairs if params.columns == "half" else 2 * pairs
    table = Tensor((*of_heads, *places.axes, "channel"), (*count, *places.shape, width), params.dtype)
    return {"cos": table, "sin": table}


def _rows(params: RopeMixed, inputs: Inputs, state: tuple[Writer, ...], tensor: str, start: int, stop: int) -> Array:
    axes, pairs = frequencies_of(inputs).shape[1:]
    points = points_of(inputs, axes).reshape(-1, axes)
    out = np.empty((stop - start, pairs), DTYPES[params.dtype])
    for head in range(start // len(points), -(-stop // len(points))):
        first = head * len(points)
        here, until = max(start, first), min(stop, first + len(points))
        part = out[here - start : until - start]
        state[head](points[here - first : until - first], *((part, None) if tensor == "cos" else (None, part)))
    if params.columns == "half":
        return out
    full = np.empty((len(out), 2 * pairs), out.dtype)
    for members in pair_members(params.pairing, 2 * pairs):
        full[:, members] = out
    return full


def _facts(_params: RopeMixed, inputs: Inputs) -> Facts:
    return {"rotary_dim": 2 * frequencies_of(inputs).shape[2]}


def _notes(params: RopeMixed, _inputs: Inputs) -> list[str]:
    idle = unused(params, ("pairing",), "columns=half") if params.columns == "half" else []
    return float32_notes(params.arithmetic) + idle


DESCRIPTION = f"""\
{FORMULA}

The tables hold the cosines and sines of these angles. The **channel order** with `columns=full` is that of the
`pairing`; `half` has one column a pair. Axes: (position, channel), or (head, position, channel). `.npy` stacks cos and
sin in that order."""

SCHEME: Scheme[RopeMixed, tuple[Writer, ...]] = Scheme(
    family="encodings",
    name="rope-mixed",
    title="Rotary position embedding with mixed axes: cos and sin tables of learned frequencies",
    explanation=(
        "On an image, RoPE may turn each pair by the row alone or by the column alone. Here a pair turns by both at "
        "once, in a direction that the model has learned: you bring its frequencies, and get its tables."
    ),
    description=DESCRIPTION,
    reference=REFERENCE,
    params=RopeMixed,
    rounding="correct",
    tensors=_tensors,
    prepare=writers_of,
    rows=_rows,
    facts=_facts,
    notes=_notes,
    state_bytes=lambda _params, inputs: state_bytes(inputs),
    inputs=(FREQUENCIES, Input("positions", "Positions, one for each axis along the last of (…, axes).")),
    examples=(
        Example(
            "Two axes, two pairs",
            {},
            {"tensors": {"frequencies": [[1, 0.5], [0.25, -1]]}, "positions": [[0, 0], [1, 0], [1, 2]]},
        ),
        Example(
            "Two heads, each with frequencies of its own",
            {"columns": "half"},
            {"tensors": {"frequencies": [[[1, 0.5], [0.5, 1]], [[0.25, -1], [0, 1]]]}, "positions": [[0, 1], [1, 2]]},
        ),
    ),
    used_by=usages(),
    properties={
        "distance": "scores depend on differences along each axis",
        "caching": "keys are turned once, and kept so",
        "implementation": "queries and keys turned in every layer, each head by a table of its own",
        "memory per head": "one table of length * width values",
        "learned parameters": "axes * heads * pairs frequencies, the caller's",
        "extrapolates": "defined at any position",
    },
)
