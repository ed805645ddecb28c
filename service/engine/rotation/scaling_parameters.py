"""The parameters of RoPE's context extension: their names, bounds and meanings.

Names are Hugging Face's own keys. What each `rope_type` takes, needs and assumes is in `scaling`.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from service.engine.quantities import LARGEST_EXACT_INTEGER, LONGEST_LIST, Base, Integer, Real, listed_reals
from service.engine.rotation.rotary_width import RotaryWidth


def _truth(value: object) -> object:
    """The texts `true` and `false` of an address, and JSON's truth values; no other spelling."""
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    if isinstance(value, bool):
        return value
    raise PydanticCustomError("truth", "true or false is needed")


RopeType = Annotated[
    Literal[
        "default",
        "linear",
        "dynamic",
        "ntk",
        "ntk_aware",
        "ntk_alpha",
        "ntk_by_parts",
        "yarn",
        "longrope",
        "llama3",
        "proportional",
        "frequencies",
        "divisors",
    ],
    Field(description="How the frequencies are scaled for longer contexts: see the formulas above."),
]
Factor = Annotated[
    Real,
    Field(ge=1, le=1e6, description="s: how many times longer the context becomes (1: as trained)."),
]
Alpha = Annotated[
    Real,
    Field(ge=1, le=1e9, description="`ntk_alpha`: the base becomes base * alpha^(d / (d - 2)) (HunYuan: 1000)."),
]
MixedB = Annotated[
    Real,
    Field(gt=0, le=16, description="`ntk`: b of mixed NTK scaling; without it the scaling is fixed (vLLM)."),
]
OriginalMax = Annotated[
    Integer,
    Field(
        ge=1,
        le=LARGEST_EXACT_INTEGER,
        description="L0: the context that the model was trained with, before it was extended "
        "(default: max_position_embeddings).",
    ),
]
MaxPositions = Annotated[
    Integer,
    Field(
        ge=1,
        le=LARGEST_EXACT_INTEGER,
        description="Lmax: the context that the model is meant for; of it come `factor` (Lmax / L0) where that is "
        "left out, and the length from which `dynamic` scales.",
    ),
]
SeqLen = Annotated[
    Integer,
    Field(
        ge=1,
        le=LARGEST_EXACT_INTEGER,
        description="n: the length that `dynamic` and `longrope` scale for, the largest position + 1 of a model's "
        "call. Left out: the trained length, that is the unscaled base or the short list. Nothing is remembered "
        "from one request to the next.",
    ),
]
Beta = Annotated[Real, Field(ge=0, le=1e6)]
FreqFactor = Annotated[Real, Field(ge=1e-6, le=1e6)]
MScale = Annotated[Real, Field(ge=0, le=1000)]
AttentionFactor = Annotated[
    Real,
    Field(
        ge=0,
        le=1024,
        description="A: multiplies cos and sin, so scores grow by A^2 (default: by the formula of the type).",
    ),
]
Lengthening = Annotated[
    tuple[Annotated[float, Field(ge=1e-3, le=1e30)], ...],
    BeforeValidator(listed_reals("numbers")),
    Field(min_length=1, max_length=LONGEST_LIST),
]
RawFrequencies = Annotated[
    tuple[Annotated[float, Field(ge=0, le=1e6)], ...],
    BeforeValidator(listed_reals("numbers")),
    Field(
        min_length=1,
        max_length=LONGEST_LIST,
        description="`frequencies`: the frequencies themselves, radians per position, one a pair.",
    ),
]


class ScalingRule(RotaryWidth):
    """What decides the frequencies of RoPE, apart from the head width and from lists of the caller's own."""

    base: Base = 10_000.0
    rope_type: RopeType = "default"
    factor: Factor | None = None
    original_max_position_embeddings: OriginalMax | None = None
    max_position_embeddings: MaxPositions | None = None
    seq_len: SeqLen | None = None
    low_freq_factor: Annotated[
        FreqFactor | None, Field(description="`llama3`: pairs with fewer turns in L0 are divided by `factor`.")
    ] = None
    high_freq_factor: Annotated[
        FreqFactor | None, Field(description="`llama3`: pairs with more turns in L0 stay as they are.")
    ] = None
    beta_fast: Annotated[
        Beta | None, Field(description="Pairs with more turns in L0 stay as they are (32; 0 means that too).")
    ] = None
    beta_slow: Annotated[
        Beta | None, Field(description="Pairs with fewer turns in L0 are divided by `factor` (1; 0 means that too).")
    ] = None
    truncate: Annotated[
        Annotated[bool, BeforeValidator(_truth)] | None,
        Field(description="`yarn`: whether the ends of the ramp are rounded to whole pairs, outwards (true)."),
    ] = None
    mscale: Annotated[MScale | None, Field(description="`yarn`: strength of A's numerator.")] = None
    mscale_all_dim: Annotated[
        MScale | None, Field(description="`yarn`: strength of A's denominator, and of DeepSeek's softmax factor.")
    ] = None
    attention_factor: AttentionFactor | None = None
    short_factor: Annotated[
        Lengthening | None, Field(description="`longrope`: divisors of the frequencies up to L0, one a pair.")
    ] = None
    long_factor: Annotated[
        Lengthening | None, Field(description="`longrope`: divisors of the frequencies beyond L0, one a pair.")
    ] = None
    short_mscale: Annotated[
        AttentionFactor | None, Field(description="`longrope`: A up to L0, where a model has one of its own (PhiMoE).")
    ] = None
    long_mscale: Annotated[
        AttentionFactor | None, Field(description="`longrope`: A beyond L0, where a model has one of its own (PhiMoE).")
    ] = None
    alpha: Alpha | None = None
    mixed_b: MixedB | None = None
    divisors: Annotated[
        Lengthening | None,
        Field(description="`divisors`: each frequency is divided by its own, one a pair (GGUF `rope_freqs`)."),
    ] = None
    linear_scaling: Annotated[
        Literal["frequency", "position"] | None,
        Field(
            description="What `linear` divides by `factor`: `frequency` as transformers, `position` as vLLM and litgpt"
            ". The real numbers are the same; float32 steps differ by an ulp of the angle. (frequency)"
        ),
    ] = None
    dynamic_rule: Annotated[
        Literal["base", "uniform"] | None,
        Field(
            description="`dynamic`: `base` grows the base with `seq_len`, as transformers and vLLM; `uniform` divides "
            "every frequency by factor^(d / (d - 2)) at any length, as keras-hub. (base)"
        ),
    ] = None
    ramp: Annotated[
        Literal["channels", "rotations", "inverted"] | None,
        Field(
            description="What `yarn` and `ntk_by_parts` blend along: `channels` between the pairs that make beta_fast "
            "and beta_slow turns, as all YaRN code; `rotations` by the number of turns itself, as the paper's formula; "
            "`inverted` litgpt's, which scales the fast pairs. (yarn: channels; ntk_by_parts: rotations)"
        ),
    ] = None
    truncate_rule: Annotated[
        Literal["stated", "always", "beside-layers"] | None,
        Field(
            description="Whether `truncate` is asked: `stated` transformers 4, vLLM and keras-hub; `always` the ends "
            "of the ramp are rounded to whole pairs whatever it says, as llama.cpp, MLX and DeepSeek's own code; "
            "`beside-layers` as transformers 5.24, which in a pasted block with an object for each type of layer asks "
            "what stands beside these, not within. (stated)"
        ),
    ] = None
    mscale_rule: Annotated[
        Literal["both", "each", "neither"] | None,
        Field(
            description="`yarn` with mscale or mscale_all_dim alone: `both` transformers, which counts them only "
            "together; `each` DeepSeek's own code, vLLM's deepseek_yarn and MLX (defaults 1 and 0); `neither` "
            "keras-hub, whose A is 1 + 0.1 ln s whatever they and attention_factor say. (both)"
        ),
    ] = None
    longrope_list: Annotated[
        Literal["by-length", "short", "long", "short-beside-mscale"] | None,
        Field(
            description="Which list `longrope` takes: `by-length` long where seq_len > L0, as transformers (vLLM: "
            "where its max_model_len is); `long` always, as MLX; `short` always; `short-beside-mscale` short where "
            "short_mscale and long_mscale are given (A still goes by length), as transformers 5.24 does for PhiMoE, "
            "else by length. (by-length)"
        ),
    ] = None
    longrope_attention: Annotated[
        Literal["factor", "own-or-ratio", "ratio"] | None,
        Field(
            description="Where A of `longrope` comes from: `factor` attention_factor, else factor, as transformers; "
            "`own-or-ratio` attention_factor, else Lmax / L0, as transformers 4.57; `ratio` Lmax / L0 whatever those "
            "say, as vLLM. (factor)"
        ),
    ] = None
    scaling_types: Annotated[
        Literal["all", "mlx-lm", "keras-hub", "rotary-embedding-torch"] | None,
        Field(
            description="Whose types of scaling may be asked for: `all`, or those that an implementation has. What it "
            "lacks is refused: mlx-lm fails there, and keras-hub would leave frequencies unscaled. (all)"
        ),
    ] = None


class Scaling(ScalingRule):
    """The same with the caller's own frequencies."""

    frequencies: RawFrequencies | None = None
