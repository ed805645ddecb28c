"""Position ids of padded batches, from an attention mask or from the token ids themselves."""

from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.attention.attending import ATTENTION_MASK, Booleans, flags, integers
from service.engine.errors import Refusal
from service.engine.numbers.counting import FirstPosition, PositionIds, id_rows, refuse_uncountable
from service.engine.quantities import LARGEST_EXACT_INTEGER, ExactInteger, Integer
from service.engine.scheme import Array, Example, Input, Inputs, Scheme, Tensor, Tensors, Usage


class FromMask(PositionIds):
    """Parameters of `positions/from-mask`."""

    offset: FirstPosition = 0
    fill: Annotated[
        ExactInteger, Field(description="The position of what is no token: padding, and holes in the mask.")
    ] = 0
    pad_token_id: Annotated[
        ExactInteger | None,
        Field(description="Which of the `input_ids` are padding (`fill`, as RoBERTa's padding_idx is both)."),
    ] = None
    last: Annotated[
        Integer | None,
        Field(ge=1, le=LARGEST_EXACT_INTEGER, description="Answer for the last so many tokens of each row only."),
    ] = None


def _padding(params: FromMask) -> int:
    return params.fill if params.pad_token_id is None else params.pad_token_id


def _resolve(params: FromMask, inputs: Inputs) -> FromMask:
    return params.model_copy(update={"pad_token_id": _padding(params)}) if "input_ids" in inputs else params


def _tokens(params: FromMask, inputs: Inputs) -> Booleans:
    """Where there is a token and not padding."""
    if "attention_mask" not in inputs:
        return np.not_equal(integers("input_ids", inputs), _padding(params))
    if "input_ids" in inputs:
        detail = "attention_mask and input_ids say the same thing twice; send one of them"
        raise Refusal("/tensors/input_ids", "conflict", detail)
    if params.pad_token_id is not None:
        raise Refusal("pad_token_id", "conflict", "pad_token_id is about input_ids; the body has an attention_mask")
    return flags("attention_mask", inputs, 2)


def _tensors(params: FromMask, inputs: Inputs) -> Tensors:
    tokens = _tokens(params, inputs)
    keys = tokens.shape[-1]
    last = keys if params.last is None else params.last
    if last > keys:
        detail = f"last is {last}; the rows of the body have {keys} tokens"
        raise Refusal("last", "out_of_range", detail, limit=keys, requested=last)
    refuse_uncountable(params.dtype, "offset", params.offset, keys)
    refuse_uncountable(params.dtype, "fill", params.fill, 0)
    axes = ("batch", "token")[-tokens.ndim :]
    return {"positions": Tensor(axes, (*tokens.shape[:-1], last), params.dtype)}


def _rows(params: FromMask, _inputs: Inputs, state: Booleans, _tensor: str, start: int, stop: int) -> Array:
    tokens = id_rows(state, start, stop)
    before = np.cumsum(tokens, axis=-1, dtype=np.int64) - 1
    positions = np.where(tokens, before + params.offset, params.fill)
    return positions[:, -(params.last or 0) :].astype(params.dtype)


DESCRIPTION = """\
The position of a token is `offset` plus the number of tokens before it in its row; what is no token (padding on either
side, holes) has the position `fill`. A row without any token is `fill` throughout.

The body holds an `attention_mask` of ones and zeros, or the `input_ids`, of which those that are `pad_token_id` are
padding. Models of the RoBERTa family begin at padding_idx + 1 and leave padding at padding_idx: `offset=2&fill=1`.
`last=n` answers for the last n tokens only, as a decoder with a cache needs them. Axes: (token), or (batch, token), as
the body has them."""

SCHEME: Scheme[FromMask, Booleans] = Scheme(
    family="positions",
    name="from-mask",
    title="Position ids of padded batches",
    explanation=(
        "In a padded batch a token's position is how many tokens stand before it, not where it stands in the row. "
        "Models that are padded on the left give wrong answers without this."
    ),
    description=DESCRIPTION,
    reference="transformers generation and create_position_ids_from_input_ids; Liu et al., RoBERTa, 2019",
    params=FromMask,
    rounding="integer",
    tensors=_tensors,
    prepare=_tokens,
    rows=_rows,
    resolve=_resolve,
    facts=lambda params, inputs: {"tokens": int(np.count_nonzero(_tokens(params, inputs)))},
    inputs=(ATTENTION_MASK, Input("input_ids", "Token ids: (tokens), or (batch, tokens).", required=False)),
    alternatives=True,
    examples=(
        Example("Padding on the left", {}, {"tensors": {"attention_mask": [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]}}),
        Example("RoBERTa, from token ids", {"offset": "2", "fill": "1"}, {"tensors": {"input_ids": [1, 1, 5, 6, 7]}}),
        Example("The newest token of each row", {"last": "1"}, {"tensors": {"attention_mask": [[1, 1, 1], [0, 1, 1]]}}),
    ),
    used_by=(
        Usage("transformers 5 generate", {"fill": "0"}, preset="transformers"),
        Usage("transformers 4.57 generate", {"fill": "1"}, preset="transformers-4.57"),
        Usage(
            "RoBERTa, XLM-R, CamemBERT, Longformer, LayoutLMv3, MPNet, ESM, from input_ids; OPT, BioGPT, from a mask",
            {"offset": "2", "fill": "1"},
            preset="roberta",
        ),
        Usage(
            "fairseq, M2M100, XGLM, Speech2Text and their kin, whose table is encodings/sinusoidal with preset=fairseq",
            {"offset": "2", "fill": "1"},
            preset="fairseq",
        ),
    ),
    properties={"learned parameters": "none", "extrapolates": "positions grow with the tokens"},
)
