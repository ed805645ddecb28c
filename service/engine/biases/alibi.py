"""ALiBi: a bias on attention scores that grows linearly with distance (Press et al., 2022)."""

import numpy as np

from service.engine.frequencies import REAL_BYTES
from service.engine.quantities import DType, Heads
from service.engine.reals import Reals
from service.engine.relative import QueryKey, Sizes, resolved, sizes
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Facts, Inputs, Scheme, Sequence, Tensor, Tensors, Usage
from service.engine.slopes import BiasForm, Slopes, form_note, refuse_unanswerable, slopes, write_bias


class Alibi(QueryKey, Slopes):
    """Parameters of `biases/alibi`."""

    heads: Heads
    form: BiasForm = "relative"
    dtype: DType = "float32"


def _tensors(params: Alibi, _inputs: Inputs) -> Tensors:
    refuse_unanswerable(params, params.form, params.heads, sizes(params), params.dtype)
    size = _rows_of_a_head(params)
    return {"bias": Tensor(("head", "query", "key"), (params.heads, size.queries, size.keys), params.dtype)}


def _rows_of_a_head(params: Alibi) -> Sizes:
    size = sizes(params)
    return size._replace(queries=1) if params.form == "key-only" else size


def _prepare(params: Alibi, _inputs: Inputs) -> Reals:
    return slopes(params.heads, params.alibi_bias_max)


def _rows(params: Alibi, _inputs: Inputs, state: Reals, _tensor: str, start: int, stop: int) -> Array:
    size = _rows_of_a_head(params)
    out = np.empty((stop - start, size.keys), DTYPES[params.dtype])
    write_bias(state, params.form, size, start, out)
    return out


def _facts(params: Alibi, _inputs: Inputs) -> Facts:
    return sizes(params)._asdict()


def _sequence(params: Alibi, _inputs: Inputs) -> Sequence:
    return Sequence(params, 0)


DESCRIPTION = """\
Head h adds `m_h (j - i)` to the score of query i and key j: `m_h = 2^(-B h / n)` for h = 1 ... n heads, B =
`alibi_bias_max`; for a head count n that is no power of two, the slopes of the power of two below, then every other
slope of the power of two above. Query row r stands at position r + `offset`, by default keys - queries, which is what
decoding with a cache needs.

**Axes**: (head, query, key); `form=key-only` has one query row. The order of heads is that of the slopes."""

SCHEME: Scheme[Alibi, Reals] = Scheme(
    family="biases",
    name="alibi",
    title="ALiBi attention bias",
    description=DESCRIPTION,
    reference="Press et al., Train Short, Test Long: Attention with Linear Biases, 2022",
    params=Alibi,
    rounding="correct",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    facts=_facts,
    notes=lambda params, _inputs: form_note(params.form),
    sequence=_sequence,
    state_bytes=lambda params, _inputs: REAL_BYTES * params.heads,
    resolve=lambda params, _inputs: resolved(params),
    instead="form=key-only has one row a head, and biases/alibi-slopes only the slopes",
    examples=(
        Example("Two heads, four positions", {"heads": "2", "length": "4"}),
        Example("One decoding step over four keys", {"heads": "2", "queries": "1", "keys": "4"}),
        Example("An encoder's symmetric bias", {"heads": "3", "length": "3", "form": "symmetric"}),
    ),
    used_by=(
        Usage("the paper and its fairseq code, BLOOM (without padding)", {"form": "key-only"}),
        Usage("x-transformers, MLX", {"form": "symmetric"}),
    ),
    properties={
        "learned parameters": "none",
        "extrapolates": "yes: the bias is defined at any distance",
        "memory per head": "queries * keys values, or none where the attention kernel takes the slopes",
    },
)
