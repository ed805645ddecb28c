"""How implementations of RoPE scale, where they disagree: named sets of the parameters that decide it."""

from service.engine.scheme import Usage

_TRANSFORMERS = {
    "arithmetic": "float32",
    "linear_scaling": "frequency",
    "dynamic_rule": "base",
    "mscale_rule": "both",
    "longrope_list": "by-length",
    "longrope_attention": "factor",
}

IMPLEMENTATIONS = (
    Usage("transformers 5.24 (`seq_len`: the largest position + 1)", _TRANSFORMERS, preset="transformers-5.24"),
    Usage(
        "transformers 4.57 (`seq_len`: the largest position + 1)",
        {**_TRANSFORMERS, "longrope_attention": "own-or-ratio"},
        preset="transformers-4.57",
    ),
    Usage(
        "vLLM (`seq_len`: its max_model_len)",
        {**_TRANSFORMERS, "linear_scaling": "position", "longrope_attention": "ratio"},
        preset="vllm",
    ),
    Usage(
        "DeepSeek V2 and V3, vLLM's deepseek_yarn",
        {"arithmetic": "float32", "mscale_rule": "each"},
        preset="deepseek",
    ),
    Usage(
        "MLX and mlx-lm",
        {"mscale_rule": "each", "longrope_list": "long", "longrope_attention": "ratio", "truncate": "true"},
        preset="mlx",
    ),
    Usage("keras-hub", {"dynamic_rule": "uniform"}, preset="keras-hub"),
    Usage("llama.cpp, ggml", {"arithmetic": "ggml", "truncate": "true"}, preset="llama-cpp"),
)
