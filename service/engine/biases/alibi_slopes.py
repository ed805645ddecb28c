"""The slopes of ALiBi alone: one number a head (Press et al., 2022)."""

from service.engine.attention.slopes import Factors, Slopes, factors, refuse_too_many
from service.engine.quantities import DType, Heads
from service.engine.scheme import ITEMSIZE, Array, Example, Inputs, Scheme, Tensor, Tensors, Usage


class AlibiSlopes(Slopes):
    """Parameters of `biases/alibi-slopes`."""

    heads: Heads
    dtype: DType = "float32"


def _tensors(params: AlibiSlopes, _inputs: Inputs) -> Tensors:
    refuse_too_many(params, params.heads)
    return {"slopes": Tensor(("head",), (params.heads,), params.dtype)}


def _rows(params: AlibiSlopes, _inputs: Inputs, state: Factors, _tensor: str, _start: int, _stop: int) -> Array:
    return state.slopes(params.dtype)[None, :]


DESCRIPTION = """\
`m_h = 2^(-B h / n)` for heads h = 1 ... n, B = `alibi_bias_max`. For a head count n that is no power of two: the slopes
of the power of two below n, then every other slope (h = 1, 3, 5, ...) of the power of two above, which is what MPT's
reordering gives too. All are divided by `interpolation_factor`; heads beyond `alibi_num_heads` have slope 0.

**Axes**: (head)."""

SCHEME: Scheme[AlibiSlopes, Factors] = Scheme(
    family="biases",
    name="alibi-slopes",
    title="ALiBi slopes",
    explanation=(
        "The slopes alone: how steeply each head lowers its scores with distance. Attention kernels take these numbers "
        "instead of the whole bias."
    ),
    description=DESCRIPTION,
    reference="Press et al., Train Short, Test Long: Attention with Linear Biases, 2022",
    params=AlibiSlopes,
    rounding="correct",
    tensors=_tensors,
    prepare=lambda params, _inputs: factors(params, params.heads),
    rows=_rows,
    facts=lambda params, _inputs: {"slope_bytes_per_head": ITEMSIZE[params.dtype]},
    examples=(
        Example("Twelve heads", {"heads": "12"}),
        Example("Eight heads in bfloat16", {"heads": "8", "dtype": "bfloat16"}),
        Example("Half of the heads, for contexts twice as long", {"heads": "8", "alibi_num_heads": "4"}),
    ),
    used_by=(
        Usage("x-transformers; fairseq, MLX and keras-hub alike", {"arithmetic": "float32"}, "x-transformers"),
        Usage("BLOOM, vLLM (passed to attention kernels)", {"arithmetic": "float32-powers"}, "bloom"),
        Usage("MPT, llm-foundry", {"arithmetic": "float32-reciprocals"}, "mpt"),
        Usage("Falcon", {"arithmetic": "bfloat16"}, "falcon"),
    ),
    properties={"learned parameters": "none", "memory per head": "1 number"},
)
