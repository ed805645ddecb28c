"""Sliding-window mask: a query attends to the nearest positions only."""

from typing import Annotated, Literal

from pydantic import Field

from service.engine.attention.attending import Direction, Integers, Mask, Run, mask_scheme
from service.engine.attention.scores import Extent
from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, Integer
from service.engine.scheme import Example, Inputs, Usage

Window = Annotated[
    Integer, Field(ge=1, le=LARGEST_EXACT_INTEGER, description="Size of the window, as `counting` counts it.")
]
Counting = Annotated[
    Literal["total-including-self", "flash-left"],
    Field(
        description="`total-including-self`: so many keys in all, the query's own among them (transformers' "
        "`sliding_window`); `flash-left`: so many keys to the left of it besides its own, and with "
        "`direction=bidirectional` as many to the right (FlashAttention's `window_size`)."
    ),
]


class Sliding(Mask):
    """Parameters of `masks/sliding`."""

    window: Window
    counting: Counting = "total-including-self"
    direction: Direction = "causal"


def _side(params: Sliding) -> int:
    """How many keys on one side of the query, besides its own."""
    if params.counting == "flash-left":
        return params.window
    return params.window - 1 if params.direction == "causal" else params.window // 2


def _runs(params: Sliding, positions: Integers, _first: Integers) -> Run:
    ahead = 0 if params.direction == "causal" else _side(params)
    return Run(positions - _side(params), positions + ahead + 1)


def _check(params: Sliding, _size: Extent, _inputs: Inputs) -> None:
    if params.direction == "bidirectional" and params.counting == "total-including-self" and params.window % 2 == 0:
        raise Refusal(
            "window",
            "even",
            f"window is {params.window}, which counts the query's own key and as many on either side: an odd one will "
            f"do, such as {params.window + 1}; or counting=flash-left with the keys on one side, {params.window // 2}",
            requested=params.window,
        )


def _notes(params: Sliding) -> list[str]:
    side = _side(params)
    if params.direction == "causal":
        return [f"a query attends to {side + 1} keys at most: its own and {side} before it"]
    return [f"a query attends to {2 * side + 1} keys at most: its own and {side} on either side"]


DESCRIPTION = """\
With window w, query i may attend to key j where

- `counting=total-including-self`: `i - w < j <= i`, w keys (transformers); both ways `|i - j| <= (w - 1)/2`, w odd
- `counting=flash-left`: `i - w <= j <= i`, w + 1 keys (FlashAttention); both ways `|i - j| <= w`, 2w + 1 keys"""

SCHEME = mask_scheme(
    name="sliding",
    title="Sliding-window mask",
    explanation=(
        "Each query sees a window of its nearest predecessors and nothing older, so that cost and cache stay small in "
        "a long text. Through several layers information still travels farther than the window."
    ),
    description=DESCRIPTION,
    reference="Beltagy et al., Longformer, 2020; Jiang et al., Mistral 7B, 2023",
    params=Sliding,
    runs=_runs,
    check=_check,
    notes=_notes,
    examples=(
        Example("Three keys in all", {"length": "6", "window": "3"}),
        Example("Three keys before the query's own", {"length": "6", "window": "3", "counting": "flash-left"}),
        Example(
            "One key on either side",
            {"length": "5", "window": "1", "counting": "flash-left", "direction": "bidirectional"},
        ),
        Example("With padding", {"window": "2"}, {"tensors": {"attention_mask": [0, 1, 1, 1, 1, 1]}}),
    ),
    used_by=(
        Usage("Mistral, Gemma 2 and 3, Qwen, gpt-oss: window = sliding_window; GPT-Neo: window_size", {}, "mistral"),
        Usage("FlashAttention window_size=(window, 0)", {"counting": "flash-left"}, "flash-attention"),
        Usage(
            "ModernBERT: window = local_attention // 2; Longformer, LED: attention_window // 2; EmbeddingGemma: "
            "sliding_window // 2; FlashAttention (w, w)",
            {"counting": "flash-left", "direction": "bidirectional"},
            "modernbert",
        ),
    ),
)
