"""How implementations of RoPE scale, and how models turn, where they disagree: named sets of parameters."""

from collections.abc import Iterable, Mapping

from service.engine.scheme import Usage

_TRANSFORMERS = {
    "arithmetic": "float32",
    "linear_scaling": "frequency",
    "dynamic_rule": "base",
    "truncate_rule": "stated",
    "mscale_rule": "both",
    "longrope_list": "by-length",
    "longrope_attention": "factor",
}

IMPLEMENTATIONS = (
    Usage(
        "transformers 5.24 (`seq_len`: the largest position + 1)",
        {**_TRANSFORMERS, "truncate_rule": "beside-layers", "longrope_list": "short-beside-mscale"},
        preset="transformers-5.24",
    ),
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
        "DeepSeek V2 and V3, DeepSeek's own code (transformers: deepseek-v2, deepseek-v3)",
        {"arithmetic": "float32", "pairing": "interleaved", "truncate_rule": "always", "mscale_rule": "each"},
        preset="deepseek",
    ),
    Usage(
        "MLX and mlx-lm: frequencies as mx.fast.rope has them from `freqs` (from `base` it has an exponential of its "
        "own, of which each may be 8 ulp off)",
        {
            "arithmetic": "float32",
            "linear_scaling": "position",
            "truncate_rule": "always",
            "mscale_rule": "each",
            "longrope_list": "long",
            "longrope_attention": "ratio",
            "scaling_types": "mlx-lm",
        },
        preset="mlx",
    ),
    Usage(
        "keras-hub",
        {
            "arithmetic": "float32",
            "dynamic_rule": "uniform",
            "mscale_rule": "neither",
            "scaling_types": "keras-hub",
        },
        preset="keras-hub",
    ),
    Usage(
        "rotary-embedding-torch, x-transformers",
        {
            "arithmetic": "float32",
            "pairing": "interleaved",
            "linear_scaling": "position",
            "scaling_types": "rotary-embedding-torch",
        },
        preset="rotary-embedding-torch",
    ),
    Usage("llama.cpp, ggml", {"arithmetic": "ggml", "truncate_rule": "always"}, preset="llama.cpp"),
)


def _model(who: str, preset: str, **parameters: str) -> Usage:
    return Usage(who, {"arithmetic": "float32", **parameters}, preset=preset)


# What these models turn, and in which number formats, in transformers 5.24; bases and widths are a checkpoint's own.
ROTATIONS = (
    _model("Llama, Phi-3, Gemma 3: in the number format of the vectors", "llama", pairing="half"),
    _model("GPT-NeoX, Pythia", "gpt-neox", partial_rotary_factor="0.25"),
    _model("Phi-4-mini", "phi-4-mini", partial_rotary_factor="0.75"),
    _model("OLMo, OLMo 2, OLMo 3", "olmo", table_dtype="float32"),
    _model("Cohere, Cohere 2", "cohere", pairing="interleaved", compute_dtype="float32"),
    _model("GLM, GLM-4", "glm", pairing="interleaved", partial_rotary_factor="0.5"),
    _model("ERNIE 4.5", "ernie-4-5", pairing="interleaved", table_dtype="float32"),
    _model("Llama 4: text", "llama-4", pairing="interleaved", table_dtype="float32"),
    _model("DeepSeek V2: the rotary part", "deepseek-v2", pairing="interleaved", table_dtype="float32"),
    _model("DeepSeek V3, GLM-4 MoE Lite: the rotary part", "deepseek-v3", pairing="interleaved", output_pairing="half"),
    _model(
        "DeepSeek V4: the last 64 channels",
        "deepseek-v4",
        pairing="interleaved",
        rotary_channels="last",
        rotary_dim="64",
        compute_dtype="float32",
    ),
    _model("nanochat", "nanochat", angle_sign="negative"),
)

# What turned vectors have beside their tables: where the attention factor is, and the number formats of roundings.
_OF_VECTORS = {
    "mlx": {"attention_on": "vectors"},
    "deepseek": {"table_dtype": "float32"},
    "keras-hub": {"attention_on": "rounded-tables"},
    "rotary-embedding-torch": {"table_dtype": "float32"},
    "llama.cpp": {"table_dtype": "float32"},
}
# What a rotation on one axis has beside one on several: xPos.
_ON_ONE_AXIS = {"rotary-embedding-torch": {"xpos_centering": "middle"}}


def _with(usages: Iterable[Usage], more: Mapping[str, Mapping[str, str]]) -> tuple[Usage, ...]:
    """The usages, some with more parameters."""
    return tuple(
        Usage(usage.who, {**usage.parameters, **more.get(usage.preset, {})}, preset=usage.preset) for usage in usages
    )


TURNED = _with(IMPLEMENTATIONS, _OF_VECTORS)
ON_ONE_AXIS = _with(IMPLEMENTATIONS, _ON_ONE_AXIS)
TURNED_ON_ONE_AXIS = _with(TURNED, _ON_ONE_AXIS)
