"""The parameters of RoPE's context extension: what each `rope_type` takes, needs and assumes.

Names are Hugging Face's own keys. What implementations disagree about is a parameter of its own (`SWITCHES`), whose
default is transformers' way. `completed` fills in what a type assumes and refuses what it cannot work with; the
formulas are in `scaling_exact` (real numbers) and `scaling_single` (float32 steps).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from service.engine.errors import Refusal
from service.engine.quantities import LARGEST_EXACT_INTEGER, LONGEST_LIST, Base, Integer, Real, listed_reals
from service.engine.rotation.rotary_width import RotaryWidth

# The least that is not 0.
SMALLEST = {
    **dict.fromkeys(("attention_factor", "short_mscale", "long_mscale"), 1 / 1024),
    **dict.fromkeys(("beta_fast", "beta_slow"), 1e-6),
}


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
    mscale_rule: Annotated[
        Literal["both", "each"] | None,
        Field(
            description="`yarn` with mscale or mscale_all_dim alone: `both` transformers, which counts them only "
            "together; `each` DeepSeek's own code, vLLM's deepseek_yarn and MLX (defaults 1 and 0). (both)"
        ),
    ] = None
    longrope_list: Annotated[
        Literal["by-length", "short", "long"] | None,
        Field(
            description="Which list `longrope` takes: `by-length` long where seq_len > L0, as transformers (vLLM: "
            "where its max_model_len is); `long` always, as MLX; `short` always, as transformers 5.24 does for PhiMoE. "
            "(by-length)"
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


class Scaling(ScalingRule):
    """The same with the caller's own frequencies."""

    frequencies: RawFrequencies | None = None


P = TypeVar("P", bound=Scaling)

_LENGTHS = ("original_max_position_embeddings", "max_position_embeddings")
_BY_PARTS = ("factor", *_LENGTHS, "beta_fast", "beta_slow", "truncate", "ramp", "attention_factor")
# What each type takes; everything else has no effect with it.
TAKES: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor", "linear_scaling"),
    "dynamic": ("factor", "max_position_embeddings", "seq_len", "dynamic_rule"),
    "ntk": ("factor", "mixed_b"),
    "ntk_aware": ("factor",),
    "ntk_alpha": ("alpha",),
    "ntk_by_parts": _BY_PARTS,
    "yarn": (*_BY_PARTS, "mscale", "mscale_all_dim", "mscale_rule"),
    "longrope": (
        "factor",
        *_LENGTHS,
        "seq_len",
        "short_factor",
        "long_factor",
        "short_mscale",
        "long_mscale",
        "attention_factor",
        "longrope_list",
        "longrope_attention",
    ),
    "llama3": ("factor", *_LENGTHS, "low_freq_factor", "high_freq_factor"),
    "proportional": ("factor",),
    "frequencies": ("frequencies", "attention_factor"),
    "divisors": ("divisors", "attention_factor"),
}
# What implementations disagree about; dropped where it decides nothing, so that one preset serves every type.
SWITCHES = ("linear_scaling", "dynamic_rule", "ramp", "mscale_rule", "longrope_list", "longrope_attention")
# Those that say how much, of which an idle one is worth a word.
PARAMETERS = tuple(
    name for name in Scaling.model_fields if name in {part for parts in TAKES.values() for part in parts} - {*SWITCHES}
)
ASSUMED: Mapping[str, Mapping[str, Any]] = {
    "linear": {"linear_scaling": "frequency"},
    "dynamic": {"dynamic_rule": "base"},
    "ntk_by_parts": {"beta_fast": 32.0, "beta_slow": 1.0, "ramp": "rotations"},
    "yarn": {"beta_fast": 32.0, "beta_slow": 1.0, "ramp": "channels", "mscale_rule": "both"},
    "longrope": {"longrope_list": "by-length", "longrope_attention": "factor"},
    "proportional": {"factor": 1.0},
}
# An entry for each pair.
PER_PAIR = ("short_factor", "long_factor", "frequencies", "divisors")
NEEDED: Mapping[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "ntk": ("factor",),
    "ntk_aware": ("factor",),
    "ntk_alpha": ("alpha",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "frequencies": ("frequencies",),
    "divisors": ("divisors",),
}
STRETCHED_BASES = ("dynamic", "ntk_aware", "ntk_alpha")


def completed(params: P, width: int) -> P:
    """The parameters with all that the type assumes; refuses what is missing, does not fit, or has no meaning.

    >>> lengths = {"max_position_embeddings": 8192, "original_max_position_embeddings": 2048}
    >>> whole = completed(Scaling(rope_type="yarn", **lengths), 8)
    >>> whole.factor, whole.beta_fast, whole.truncate
    (4.0, 32.0, True)
    """
    kind = params.rope_type
    missing = [name for name in NEEDED.get(kind, ()) if getattr(params, name) is None]
    if missing:
        raise _missing(kind, missing[0])
    found: dict[str, Any] = {name: None for name in SWITCHES if name not in TAKES[kind]}
    # 0 of a beta is Hugging Face's way to leave it out.
    found |= {name: value for name, value in ASSUMED.get(kind, {}).items() if not getattr(params, name)}
    whole = params.model_copy(update=found)
    whole = whole.model_copy(update=_lengths(whole))
    _refuse_lists(whole, width)
    _refuse_meaningless(whole, width)
    return whole


def _missing(kind: str, name: str, more: str = "") -> Refusal:
    return Refusal(name, "missing", f"{name} is missing: rope_type={kind} needs it{more}")


def _lengths(params: Scaling) -> dict[str, Any]:
    """Lengths and the factor, each from the others where it was left out, as transformers fills them in."""
    kind, largest = params.rope_type, params.max_position_embeddings
    if kind == "dynamic":
        if largest is None and params.dynamic_rule == "base":
            raise _missing(kind, "max_position_embeddings")
        return {"seq_len": params.seq_len or largest}
    if "original_max_position_embeddings" not in TAKES[kind]:
        return {}
    trained = params.original_max_position_embeddings or largest
    if trained is None:
        raise _missing(kind, "original_max_position_embeddings", ", or max_position_embeddings in its place")
    found: dict[str, Any] = {"original_max_position_embeddings": trained}
    if params.factor is None and not (kind == "longrope" and _has_own_attention(params)):
        if largest is None:
            raise _missing(kind, "factor", ", or max_position_embeddings, of which it is the ratio")
        found["factor"] = _ratio(largest, trained)
    if kind == "longrope":
        found["seq_len"] = params.seq_len or trained
    if params.truncate is None and params.ramp in ("channels", "inverted"):
        found["truncate"] = True
    return found


def _has_own_attention(params: Scaling) -> bool:
    """Whether `longrope` says what A is, so that nothing follows from a factor."""
    return params.attention_factor is not None or None not in (params.short_mscale, params.long_mscale)


def _ratio(largest: int, trained: int) -> float:
    if largest < trained:
        raise Refusal(
            "max_position_embeddings",
            "out_of_range",
            f"max_position_embeddings is {largest}, below the trained length of {trained}: give factor itself",
            limit=trained,
        )
    return largest / trained


def _refuse_lists(params: Scaling, width: int) -> None:
    for name in PER_PAIR:
        entries = getattr(params, name)
        if entries is not None and name in TAKES[params.rope_type] and len(entries) != width // 2:
            raise Refusal(
                name,
                "shape",
                f"{name} has one entry a pair: expected {width // 2}, got {len(entries)}",
                limit=width // 2,
                requested=len(entries),
            )


def _refuse_meaningless(params: Scaling, width: int) -> None:
    kind = params.rope_type
    if kind in STRETCHED_BASES and width == 2:
        raise Refusal("rope_type", "out_of_range", f"rope_type={kind} has the exponent d / (d - 2): d is 2, 4 would do")
    _refuse_order(params, "beta_slow", "beta_fast")
    _refuse_order(params, "low_freq_factor", "high_freq_factor")
    if kind == "longrope" and params.original_max_position_embeddings == 1:
        raise Refusal(
            "original_max_position_embeddings",
            "out_of_range",
            "original_max_position_embeddings is 1, and longrope divides by its logarithm: 2 or more would do",
            limit=2,
        )
    if kind == "longrope" and _needs_ratio(params) and params.max_position_embeddings is None:
        raise _missing(kind, "max_position_embeddings", f" with longrope_attention={params.longrope_attention}")
    for name, least in SMALLEST.items():
        if 0 < (getattr(params, name) or 0) < least:
            raise Refusal(name, "out_of_range", f"{name} must be 0 or at least {least:g}", limit=least)


def _needs_ratio(params: Scaling) -> bool:
    given = params.attention_factor is not None
    return params.longrope_attention == "ratio" or (params.longrope_attention == "own-or-ratio" and not given)


def _refuse_order(params: Scaling, low: str, high: str) -> None:
    least, most = getattr(params, low), getattr(params, high)
    if high in TAKES[params.rope_type] and most < least:
        raise Refusal(high, "out_of_range", f"{high} is {most:g}, below {low} ({least:g})", limit=least)


def takes_long_list(params: Scaling) -> bool:
    """Whether `longrope` (completed) is beyond the trained length: strictly, as transformers has it."""
    assert params.seq_len is not None
    assert params.original_max_position_embeddings is not None
    return params.seq_len > params.original_max_position_embeddings


def list_used(params: Scaling) -> Literal["short", "long"]:
    """Which list of `longrope` (completed) divides the frequencies."""
    if params.longrope_list in ("short", "long"):
        return params.longrope_list
    return "long" if takes_long_list(params) else "short"


def scaling_notes(params: Scaling) -> list[str]:
    """What deserves saying about the scaling: parameters without effect, and a factor that its lengths contradict."""
    kind = params.rope_type
    idle = [name for name in PARAMETERS if name not in TAKES[kind]]
    notes = [f"{name} has no effect with rope_type={kind}" for name in idle if getattr(params, name) is not None]
    trained, largest = params.original_max_position_embeddings, params.max_position_embeddings
    if kind in ("yarn", "longrope", "ntk_by_parts") and trained and largest and params.factor is not None:
        ratio = largest / trained
        if ratio not in (1, params.factor):
            notes.append(
                f"factor is {params.factor:g}, and max_position_embeddings / original_max_position_embeddings is "
                f"{ratio:g}: the factor was used"
            )
    return notes
