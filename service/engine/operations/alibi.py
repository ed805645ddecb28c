"""The ALiBi bias added to the caller's attention scores (Press et al., 2022)."""

import numpy as np

from service.engine.reals import Reals
from service.engine.relative import QueryOffset, Sizes
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.slopes import BiasForm, Slopes, form_note, refuse_unanswerable, slopes, write_bias
from service.engine.vectors import SameDType, answer_dtype, block, refuse_odd_shapes, refuse_overflow, vector_axes


class ApplyAlibi(Slopes):
    """Parameters of `apply/alibi`."""

    offset: QueryOffset | None = None
    form: BiasForm = "relative"
    dtype: SameDType = None


def _sizes(params: ApplyAlibi, inputs: Inputs) -> Sizes:
    queries, keys = inputs["x"].shape[-2:]
    return Sizes(queries, keys, keys - queries if params.offset is None else params.offset)


def _tensors(params: ApplyAlibi, inputs: Inputs) -> Tensors:
    x = inputs["x"]
    refuse_odd_shapes("x", x, 3, "(…, heads, queries, keys)")
    dtype = answer_dtype(params.dtype, x)
    refuse_overflow("x", x, dtype)
    refuse_unanswerable(params, params.form, x.shape[-3], _sizes(params, inputs), dtype)
    return {"x": Tensor(vector_axes(x.ndim, ("head", "query", "key")), x.shape, dtype)}


def _prepare(params: ApplyAlibi, inputs: Inputs) -> Reals:
    return slopes(inputs["x"].shape[-3], params.alibi_bias_max)


def _rows(params: ApplyAlibi, inputs: Inputs, state: Reals, tensor: str, start: int, stop: int) -> Array:
    x = inputs[tensor]
    dtype = answer_dtype(params.dtype, x)
    size = _sizes(params, inputs)
    out = np.empty((stop - start, size.keys), DTYPES[dtype])
    write_bias(state, params.form, size, start, out)
    with np.errstate(over="ignore", invalid="ignore"):
        np.add(block(x, start, stop, dtype), out, out=out)
    return out


def _facts(params: ApplyAlibi, inputs: Inputs) -> Facts:
    return {"heads": inputs["x"].shape[-3], **_sizes(params, inputs)._asdict()}


DESCRIPTION = """\
Answers scores x of shape (…, heads, queries, keys) plus the bias of `biases/alibi`: `m_h (j - i)` for query i and
key j, `m_h = 2^(-B h / n)`. Query row r stands at position r + `offset`, by default keys - queries. The bias is rounded
once to the number format of x, and the sum once more. Infinite scores stay infinite. **Axes** stay as they came.

The body is JSON, one `.npy` or a safetensors file with `x`."""

SCHEME: Scheme[ApplyAlibi, Reals] = Scheme(
    family="apply",
    name="alibi",
    title="ALiBi bias added to attention scores",
    description=DESCRIPTION,
    reference="Press et al., Train Short, Test Long: Attention with Linear Biases, 2022",
    params=ApplyAlibi,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=lambda params, _inputs: form_note(params.form),
    inputs=(Input("x", "Attention scores: (…, heads, queries, keys)."),),
    examples=(
        Example("Two heads, one decoding step over three keys", {}, {"tensors": {"x": [[[1, 2, 3]], [[1, 2, 3]]]}}),
    ),
    used_by=(
        Usage("the paper and its fairseq code, BLOOM (without padding)", {"form": "key-only"}),
        Usage("x-transformers, MLX", {"form": "symmetric"}),
    ),
    properties={"learned parameters": "none"},
)
