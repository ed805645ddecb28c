"""RoPE's context extension: what each `rope_type` takes, needs and assumes.

What implementations disagree about is a parameter of its own (`SWITCHES`), whose default is transformers' way.
`completed` fills in what a type assumes and refuses what it cannot work with; the formulas are in `scaling_exact` (real
numbers) and `scaling_single` (float32 steps).
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from service.engine.errors import Refusal
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.scheme import altered

# The least that is not 0.
SMALLEST = {
    **dict.fromkeys(("attention_factor", "short_mscale", "long_mscale"), 1 / 1024),
    **dict.fromkeys(("beta_fast", "beta_slow"), 1e-6),
}

P = TypeVar("P", bound=Scaling)

_LENGTHS = ("original_max_position_embeddings", "max_position_embeddings")
_BY_PARTS = ("factor", *_LENGTHS, "beta_fast", "beta_slow", "truncate", "truncate_rule", "ramp", "attention_factor")
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
SWITCHES = (
    "linear_scaling",
    "dynamic_rule",
    "ramp",
    "truncate_rule",
    "mscale_rule",
    "longrope_list",
    "longrope_attention",
    "scaling_types",
)
# The types that an implementation has; the caller's own lists are what its functions take by hand.
TYPES_OF: Mapping[str, tuple[str, ...]] = {
    "mlx-lm": ("default", "linear", "yarn", "longrope", "llama3", "proportional", "frequencies", "divisors"),
    "keras-hub": ("default", "linear", "dynamic", "yarn"),
    "rotary-embedding-torch": ("default", "linear", "ntk_aware", "frequencies"),
}
# Those that say how much, of which an idle one is worth a word.
PARAMETERS = tuple(
    name for name in Scaling.model_fields if name in {part for parts in TAKES.values() for part in parts} - {*SWITCHES}
)
ASSUMED: Mapping[str, Mapping[str, Any]] = {
    "linear": {"linear_scaling": "frequency"},
    "dynamic": {"dynamic_rule": "base"},
    "ntk_by_parts": {"beta_fast": 32.0, "beta_slow": 1.0, "ramp": "rotations", "truncate_rule": "stated"},
    "yarn": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "ramp": "channels",
        "truncate_rule": "stated",
        "mscale_rule": "both",
    },
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
    _refuse_unknown_type(params)
    _refuse_unasked_lists(params)
    missing = [name for name in NEEDED.get(kind, ()) if getattr(params, name) is None]
    if missing:
        raise _missing(kind, missing[0])
    found: dict[str, Any] = {name: None for name in SWITCHES if name not in TAKES[kind]}
    # 0 of a beta is Hugging Face's way to leave it out.
    found |= {name: value for name, value in ASSUMED.get(kind, {}).items() if not getattr(params, name)}
    whole = altered(params, found)
    whole = altered(whole, _lengths(whole))
    _refuse_lists(whole, width)
    _refuse_meaningless(whole, width)
    return whole


def _refuse_unknown_type(params: Scaling) -> None:
    whose, kind = params.scaling_types or "all", params.rope_type
    if kind not in TYPES_OF.get(whose, (kind,)):
        detail = f"{whose} has no rope_type {kind}: scaling_types={whose} takes {', '.join(TYPES_OF[whose])}"
        raise Refusal("rope_type", "conflict", detail)


def _refuse_unasked_lists(params: Scaling) -> None:
    """The caller's own numbers are of the type that has their name; with any other they would be lost."""
    for name in ("frequencies", "divisors"):
        if getattr(params, name) is not None and params.rope_type != name:
            detail = f"{name} is given and rope_type is {params.rope_type}: rope_type={name} takes them"
            raise Refusal(name, "conflict", detail)


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
    return params.attention_factor is not None or has_own_mscales(params)


def has_own_mscales(params: Scaling) -> bool:
    """Whether `longrope` has an A of its own on both sides of the trained length."""
    return None not in (params.short_mscale, params.long_mscale)


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
    if params.longrope_list == "short-beside-mscale" and has_own_mscales(params):
        return "short"
    return "long" if takes_long_list(params) else "short"
