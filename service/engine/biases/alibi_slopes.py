"""The slopes of ALiBi alone: one number a head (Press et al., 2022)."""

from service.engine.quantities import DType, Heads
from service.engine.reals import Reals
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Inputs, Scheme, Tensor, Tensors, Usage
from service.engine.slopes import Slopes, slopes
from service.engine.waves import values


class AlibiSlopes(Slopes):
    """Parameters of `biases/alibi-slopes`."""

    heads: Heads
    dtype: DType = "float32"


def _tensors(params: AlibiSlopes, _inputs: Inputs) -> Tensors:
    return {"slopes": Tensor(("head",), (params.heads,), params.dtype)}


def _prepare(params: AlibiSlopes, _inputs: Inputs) -> Reals:
    return slopes(params.heads, params.alibi_bias_max)


def _rows(params: AlibiSlopes, _inputs: Inputs, state: Reals, _tensor: str, _start: int, _stop: int) -> Array:
    return values(state, DTYPES[params.dtype])[None, :]


DESCRIPTION = """\
`m_h = 2^(-B h / n)` for heads h = 1 ... n, B = `alibi_bias_max`. For a head count n that is no power of two: the slopes
of the power of two below n, then every other slope (h = 1, 3, 5, ...) of the power of two above.

**Axes**: (head)."""

SCHEME: Scheme[AlibiSlopes, Reals] = Scheme(
    family="biases",
    name="alibi-slopes",
    title="ALiBi slopes",
    description=DESCRIPTION,
    reference="Press et al., Train Short, Test Long: Attention with Linear Biases, 2022",
    params=AlibiSlopes,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    examples=(
        Example("Twelve heads", {"heads": "12"}),
        Example("Eight heads in bfloat16", {"heads": "8", "dtype": "bfloat16"}),
    ),
    used_by=(Usage("BLOOM, MPT, Falcon, vLLM (passed to attention kernels)", {}),),
    properties={"learned parameters": "none"},
)
