"""Prefix mask: every query sees the whole prefix, and beyond it the mask is causal."""

from typing import Annotated

import numpy as np
from pydantic import Field

from service.engine.attention.attending import Integers, Mask, Run, mask_scheme
from service.engine.attention.scores import Extent
from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.scheme import Example, Inputs, Usage

Prefix = Annotated[
    Integer, Field(ge=0, le=LARGEST_EXACT_INTEGER, description="How many of the first keys every query may attend to.")
]


class PrefixMask(Mask):
    """Parameters of `masks/prefix`."""

    prefix: Prefix


def _runs(params: PrefixMask, positions: Integers, _first: Integers) -> Run:
    return Run(positions * 0, np.maximum(positions + 1, params.prefix))


def _check(params: PrefixMask, size: Extent, _inputs: Inputs) -> None:
    if params.prefix > size.keys:
        raise Refusal(
            "prefix",
            "out_of_range",
            f"prefix is {params.prefix}, and there are {size.keys} keys; 0 to {size.keys} will do",
            limit=size.keys,
            requested=params.prefix,
        )


DESCRIPTION = "With a prefix of n keys, query i may attend to key j where `j < n` or `j <= i`: causal OR prefix."

SCHEME = mask_scheme(
    name="prefix",
    title="Prefix mask",
    explanation=(
        "The first tokens, a question or an image, see each other in both directions; what follows is written from "
        "left to right. It joins an encoder and a decoder in one model."
    ),
    description=DESCRIPTION,
    reference="Raffel et al., Exploring the Limits of Transfer Learning (T5), 2020, section 3.2.1",
    params=PrefixMask,
    runs=_runs,
    check=_check,
    examples=(
        Example("A prefix of two", {"length": "4", "prefix": "2"}),
        Example("Padded on the right", {"prefix": "2"}, {"tensors": {"attention_mask": [1, 1, 1, 0]}}),
    ),
    used_by=(Usage("prefix language models: T5's prefix LM, U-PaLM, PaliGemma (image and prompt)", {}),),
)
