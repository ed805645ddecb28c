"""Masks of transformers and PyTorch, frozen: `python -m tests.golden.make_masks`.

Truth values as 0 and 1 (uint8). `causal`, `sliding`, `sliding_bidirectional`, `chunked`, `packed`, `blockwise` and
`padding` are transformers' mask functions asked for QUERIES x KEYS cells of a batch (queries at the end of the keys),
each under the padding of TOKENS; `additive.float16` and `.bfloat16` are the causal one as eager attention adds it
(float32); `upper_left` and `lower_right` are PyTorch's causal biases, `square` its `-inf` mask. `ministral` is the
temperature at POSITIONS.
"""

from typing import Any

import numpy as np

from tests.golden.frozen import Numbers, library, save

QUERIES, KEYS = 9, 12
WINDOW, HALF_WINDOW, CHUNK = 4, 2, 5
TOKENS = np.array([[1] * 12, [0, 0, 0, *[1] * 9], [*[1] * 10, 0, 0], [0] * 12])
SEGMENTS = np.array([[0] * 5 + [1] * 7, [3, 3, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0], [1, 0] * 6, [0] * 12])
BLOCKS = np.array([[-1, 0, 0, 0, -1, -1, 1, 1, 1, 1, -1, -1], [-1] * 12, [0] * 12, [0, -1] * 6])
ADDITIVE = ("float16", "bfloat16")
POSITIONS = (0, 1, 16383, 16384, 16385, 32768, 131071, 10**6)


def functions() -> dict[str, Any]:
    """transformers' mask functions, by name."""
    torch, masks = library("torch"), library("transformers.masking_utils")
    causal = masks.causal_mask_function
    left = torch.from_numpy((TOKENS.cumsum(axis=1) == 0).sum(axis=1) % KEYS)
    return {
        "causal": causal,
        "sliding": masks.sliding_window_causal_mask_function(WINDOW),
        "sliding_bidirectional": masks.sliding_window_bidirectional_mask_function(HALF_WINDOW),
        "chunked": masks.chunked_causal_mask_function(CHUNK, left),
        "packed": masks.and_masks(causal, masks.packed_sequence_mask_function(torch.from_numpy(SEGMENTS))),
        "blockwise": masks.or_masks(causal, masks.blockwise_overlay(torch.from_numpy(BLOCKS))),
        "padding": masks.bidirectional_mask_function,
    }


def eager(function: Any, dtype: str) -> Any:
    """The mask that eager attention adds, (batch, queries, keys)."""
    torch, masks = library("torch"), library("transformers.masking_utils")
    mask = masks.eager_mask(
        len(TOKENS),
        QUERIES,
        KEYS,
        KEYS - QUERIES,
        mask_function=function,
        attention_mask=torch.from_numpy(TOKENS).bool(),
        dtype=getattr(torch, dtype),
    )
    return mask[:, 0]


def build() -> Numbers:
    """Everything the file holds, by name."""
    torch, bias = library("torch"), library("torch.nn.attention.bias")
    asked = functions()
    arrays: Numbers = {name: (eager(asked[name], "float32") == 0).numpy().astype(np.uint8) for name in asked}
    for dtype in ADDITIVE:
        arrays[f"additive.{dtype}"] = eager(asked["causal"], dtype).float().numpy()
    for name in ("upper_left", "lower_right"):
        arrays[name] = getattr(bias, f"causal_{name}")(QUERIES, KEYS)._materialize().numpy().astype(np.uint8)
    arrays["square"] = torch.nn.Transformer.generate_square_subsequent_mask(KEYS).numpy()
    scale = library("transformers.models.ministral3.modeling_ministral3").get_llama_4_attn_scale
    arrays["ministral"] = scale(torch.tensor([POSITIONS]), 0.1, 16384)[0, 0, :, 0].numpy()
    return arrays


if __name__ == "__main__":
    save("masks", build(), "torch", "transformers", "numpy")
