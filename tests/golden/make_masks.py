"""Masks of transformers and PyTorch, frozen: `python -m tests.golden.make_masks`.

Truth values as 0 and 1 (uint8). `causal`, `sliding`, `sliding_bidirectional`, `chunked`, `packed`, `blockwise` and
`padding` are transformers' mask functions asked for QUERIES x KEYS cells of a batch (queries at the end of the keys),
each under the padding of TOKENS, and so are `both` and `either`, two of them joined, and `embedding_gemma`, the
window that Gemma 3's config and code make of 2 HALF_WINDOW; `gpt_neo` is the square mask of its local layers;
`additive.*` is the causal one as eager attention adds it (float32); `upper_left` and `lower_right` are PyTorch's
causal biases, `square` its `-inf` mask. `llama4`, `ministral`, `mistral4`, `inkling2` and `beam` are temperatures at
POSITIONS, float32.
"""

import ast
import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.golden.frozen import Numbers, library, save

QUERIES, KEYS = 9, 12
WINDOW, HALF_WINDOW, CHUNK = 4, 2, 5
TOKENS = np.array([[1] * 12, [0, 0, 0, *[1] * 9], [*[1] * 10, 0, 0], [0] * 12])
SEGMENTS = np.array([[0] * 5 + [1] * 7, [3, 3, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0], [1, 0] * 6, [0] * 12])
BLOCKS = np.array([[-1, 0, 0, 0, -1, -1, 1, 1, 1, 1, -1, -1], [-1] * 12, [0] * 12, [0, -1] * 6])
ADDITIVE = ("float16", "bfloat16", "float32")
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
        "both": masks.and_masks(causal, masks.blockwise_overlay(torch.from_numpy(BLOCKS))),
        "either": masks.or_masks(
            masks.sliding_window_causal_mask_function(WINDOW),
            masks.packed_sequence_mask_function(torch.from_numpy(SEGMENTS)),
        ),
        "embedding_gemma": embedding_gemma(),
    }


def embedding_gemma() -> Any:
    """Gemma 3's window both ways: its config halves what it is given, and adds one to what it excludes."""
    config = library("transformers").Gemma3TextConfig(use_bidirectional_attention=True, sliding_window=2 * HALF_WINDOW)
    return library("transformers.models.gemma3.modeling_gemma3")._bidirectional_window_overlay(config.sliding_window)


def gpt_neo() -> Any:
    """The buffer of GPT-Neo's local attention, KEYS x KEYS."""
    config = library("transformers").GPTNeoConfig(
        hidden_size=8,
        num_heads=2,
        num_layers=2,
        attention_types=[[["global", "local"], 1]],
        window_size=WINDOW,
        max_position_embeddings=KEYS,
    )
    layer = library("transformers.models.gpt_neo.modeling_gpt_neo").GPTNeoSelfAttention(config, "local", 1)
    return layer.bias[0, 0].numpy()


def llama4() -> Any:
    """The one statement of Llama 4's attention that makes its factors, run alone."""
    module = library("transformers.models.llama4.modeling_llama4")
    tree = ast.parse(inspect.getsource(module))
    steps = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "attn_scales"
    ]
    torch = library("torch")
    scope = {
        "torch": torch,
        "positions": torch.tensor(POSITIONS),
        "self": SimpleNamespace(floor_scale=8192, attn_scale=0.1),
    }
    return eval(ast.unparse(steps[0].value), scope)


def temperatures() -> Numbers:
    torch = library("torch")
    at = torch.tensor([POSITIONS])
    models = "transformers.models"
    inkling = library(f"{models}.inkling2.modeling_inkling2")
    knobs = SimpleNamespace(log_scaling_alpha=0.1, log_scaling_n_floor=128000)
    factors = {
        "llama4": llama4(),
        "ministral": library(f"{models}.ministral3.modeling_ministral3").get_llama_4_attn_scale(at, 0.1, 16384)[
            0, 0, :, 0
        ],
        "mistral4": library(f"{models}.mistral4.modeling_mistral4").get_llama_4_attn_scale(at, 0.1, 8192)[0, 0, :, 0],
        "inkling2": inkling.Inkling2LogScale.forward(knobs, torch.ones(1, len(POSITIONS), 1, 1), at)[0, :, 0, 0],
        "beam": library(f"{models}.beam.modeling_beam").compute_attention_scaling(at)[0, 0, :, 0],
    }
    return {name: factor.numpy() for name, factor in factors.items()}


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
    arrays["gpt_neo"] = gpt_neo().astype(np.uint8)
    arrays["square"] = torch.nn.Transformer.generate_square_subsequent_mask(KEYS).numpy()
    return arrays | temperatures()


if __name__ == "__main__":
    save("masks", build(), "torch", "transformers", "numpy")
