"""How implementations of RoPE scale, where they disagree: named sets of the parameters that decide it."""

from service.engine.scheme import Usage

IMPLEMENTATIONS = (
    Usage(
        "transformers 5.24: float32 steps, frequencies scaled, mscale only in pairs",
        {
            "arithmetic": "float32",
            "linear_scaling": "frequency",
            "dynamic_rule": "base",
            "mscale_rule": "both",
            "longrope_list": "by-length",
            "longrope_attention": "factor",
        },
        preset="transformers-5.24",
    ),
)
