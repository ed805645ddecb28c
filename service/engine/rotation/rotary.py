"""What every rotary scheme shares: the rotated width, the frequencies in each arithmetic, and cos and sin of rows."""

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field

from service.engine.arithmetics import FLOAT32_NOTE, Angles, Exact, Float32, Ggml, Mirrored, refuse_base_of_no_model
from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, fastest_frequency
from service.engine.numbers.reals import MANY_DIGITS
from service.engine.positions import Values
from service.engine.quantities import Arithmetic, Origin, Pairing, Real
from service.engine.rotation.rotary_width import rotary_width
from service.engine.rotation.scaling import PER_PAIR, completed, list_used
from service.engine.rotation.scaling_exact import (
    attention_factor,
    effective_base,
    given,
    magnitude,
    plain,
    ramp_ends,
    scaled_frequencies,
    turning_pairs,
)
from service.engine.rotation.scaling_notes import scaling_notes
from service.engine.rotation.scaling_parameters import Scaling
from service.engine.rotation.scaling_single import (
    GGML_TYPES,
    attention_in_steps,
    ggml_scaling,
    scaled_float32_frequencies,
)
from service.engine.rotation.xpos import Decay, ExactXPos, Float32XPos, Role
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Facts, altered
from service.engine.waves import Waves, values

AngleSign = Annotated[
    Literal["positive", "negative"],
    Field(
        description="Which way a pair turns: `positive` by p w_k, from its first channel to its second; `negative` "
        "by -p w_k (nanochat). Scores are equal."
    ),
]


class Rotary(Scaling):
    """Parameters that decide a rotation, apart from the head width and the positions."""

    pairing: Pairing = "half"
    angle_sign: AngleSign = "positive"
    arithmetic: Arithmetic = "exact"
    xpos_scale_base: Annotated[
        Real | None,
        Field(ge=1, le=1e6, description="xPos: B, the positions over which amplitudes fall (512; left out: no xPos)."),
    ] = None
    xpos_center: Annotated[
        Origin | None,
        Field(description="xPos: c, the position whose amplitude is 1 (by xpos_centering; without it 0)."),
    ] = None
    xpos_centering: Annotated[
        Literal["zero", "middle", "middle-up"] | None,
        Field(
            description="xPos: where c is unless xpos_center says it, of n positions: `zero` 0; `middle` n // 2, as "
            "rotary-embedding-torch and x-transformers; `middle-up` (n + 1) // 2, as torchscale. (zero)"
        ),
    ] = None


R = TypeVar("R", bound=Scaling)

DEFAULT_BASE = Rotary().base


def table_width(params: Scaling, dim: int) -> int:
    """How many channels have columns in a table: those that turn; with `proportional` all.

    >>> table_width(Rotary(partial_rotary_factor=0.25), 16)
    4
    >>> table_width(Rotary(partial_rotary_factor=0.25, rope_type="proportional"), 16)
    16
    """
    if params.rope_type != "proportional":
        return rotary_width(params, dim)
    if params.rotary_dim is not None:
        detail = "rope_type=proportional has a share of the pairs turn: give partial_rotary_factor, not rotary_dim"
        raise Refusal("rotary_dim", "conflict", detail)
    width = rotary_width(Rotary(), dim)
    if turning_pairs(params, width) < 1:
        share = params.partial_rotary_factor
        raise Refusal(
            "partial_rotary_factor",
            "out_of_range",
            f"partial_rotary_factor is {share:g}: of {width // 2} pairs none turns",
        )
    return width


def resolved(params: R, dim: int) -> R:
    """The parameters with the width and all that the scaling assumes filled in."""
    width = table_width(params, dim)
    whole = completed(params, width)
    if params.rope_type == "proportional":
        return altered(whole, {"partial_rotary_factor": whole.partial_rotary_factor or 1.0})
    return altered(whole, {"rotary_dim": width, "partial_rotary_factor": None})


def fastest(params: Rotary, width: int) -> float:
    """About the largest frequency; refuses scalings, and bases that they or an arithmetic cannot work with."""
    refuse_base_of_no_model(params.base, params.arithmetic)
    if params.arithmetic == "ggml" and params.rope_type not in GGML_TYPES:
        raise Refusal(
            "rope_type",
            "conflict",
            f"llama.cpp has no rope_type {params.rope_type}: arithmetic=ggml takes {', '.join(GGML_TYPES)}",
        )
    whole = completed(params, width)
    if whole.ramp in ("channels", "inverted") and params.base <= 1:
        raise Refusal(
            "base", "out_of_range", f"base is {params.base:g}; the ramp's ends divide by ln(base): above 1 would do"
        )
    steepest = (width - 2) / width
    fast = fastest_frequency(params.base, steepest, "base")
    stretched = effective_base(whole, width)
    if stretched is not None:
        refuse_base_of_no_model(float(stretched), params.arithmetic)
        fastest_frequency(float(stretched), steepest, "base")
    return _of_lists(whole, fast)


def _of_lists(params: Rotary, fast: float) -> float:
    """The largest frequency after a list of the caller's; refuses what becomes too fast."""
    name = f"{list_used(params)}_factor" if params.rope_type == "longrope" else params.rope_type
    if name == "frequencies":
        return max(given(params.frequencies))
    if name in PER_PAIR:
        fast /= min(1.0, *getattr(params, name))
        if fast > 2.0**FASTEST_BITS:
            raise Refusal(
                name, "out_of_range", f"{name} makes frequencies of more than 2^{FASTEST_BITS} radians per position"
            )
    return fast


def amplitude(params: Rotary, width: int, direction: str = "forward") -> Decimal:
    """A, which multiplies cos and sin; 1/A to undo it; 1 to shift what has it already.

    >>> float(amplitude(Rotary(), 8))
    1.0
    """
    factor = attention_factor(completed(params, width))
    if direction == "shift":
        return Decimal(1)
    if direction == "forward" or factor == 1:
        return factor
    if not factor:
        raise Refusal("direction", "conflict", "direction=inverse cannot undo an attention factor of 0")
    with localcontext(MANY_DIGITS):
        return 1 / factor


def amplitude_in(params: Rotary, width: int, direction: str, dtype: str) -> Array:
    """The same for tables that are rounded to `dtype` already (attention_on=rounded-tables)."""
    if direction == "shift":
        return np.ones(1, DTYPES[dtype])
    factor = attention_in_steps(completed(params, width), DTYPES[dtype])
    return factor if direction == "forward" else nearest(1 / factor.astype(np.float64), DTYPES[dtype])


def decay_of(params: Rotary, width: int, role: Role, direction: str = "forward") -> Decay | None:
    """xPos, if it is wanted."""
    if params.xpos_scale_base is None:
        return None
    # A shift multiplies by zeta_k^(distance / B): no position is special.
    center = 0.0 if direction == "shift" else params.xpos_center or 0.0
    decay = Decay(width, params.xpos_scale_base, center, role)
    return decay.reversed() if direction == "inverse" else decay


def rotary_angles(
    params: Rotary, width: int, direction: str = "forward", role: Role = "query", factor: Decimal | None = None
) -> Angles:
    """The angles of `width` channels in the arithmetic and with the sign asked for, for queries or for keys.

    `factor` multiplies cosines and sines: the amplitude unless given.
    """
    own = amplitude(params, width, direction) if factor is None else factor
    angles = _positive_angles(params, width, direction, role, own)
    return angles if params.angle_sign == "positive" else Mirrored(angles)


def _positive_angles(params: Rotary, width: int, direction: str, role: Role, factor: Decimal) -> Angles:
    whole = completed(params, width)
    decay = decay_of(params, width, role, direction)
    if params.arithmetic == "exact":
        plain = Exact(Waves(scaled_frequencies(whole, width), factor))
        return plain if decay is None else ExactXPos(plain, factor, decay)
    if params.arithmetic == "ggml":
        return Ggml(params.base, width, ggml_scaling(whole, width)._replace(amplitude=float(factor)))
    single = single_angles(params, width, float(factor))
    return single if decay is None else Float32XPos(single, decay)


def single_angles(params: Rotary, width: int, factor: float) -> Float32:
    """The angles in float32 steps; `factor` multiplies their cosines and sines."""
    whole = completed(params, width)
    if whole.linear_scaling == "position":
        return Float32(
            scaled_float32_frequencies(Scaling(base=params.base), width), position_divisor=whole.factor or 1.0
        )
    return Float32(scaled_float32_frequencies(whole, width), factor)


def divisors(params: Rotary, width: int, dtype: np.dtype[np.generic]) -> Array:
    """What each plain frequency is divided by, rounded once: the numbers of a GGUF `rope_freqs` tensor."""
    whole = completed(params, width)
    scaled = scaled_frequencies(whole, width)
    if not all(scaled):
        raise Refusal("output", "conflict", "output=divisors: some frequencies are 0, and no divisor makes that")
    return values(plain(whole, width) / scaled, dtype)


def rotary_facts(params: Rotary, dim: int) -> Facts:
    """What follows from the parameters of a rotation."""
    width = table_width(params, dim)
    whole = completed(params, width)
    facts: Facts = {"rotary_dim": width, "attention_factor": float(attention_factor(whole))}
    base = effective_base(whole, width)
    if base is not None:
        facts["effective_base"] = float(base)
    if whole.ramp in ("channels", "inverted"):
        facts["ramp_low"], facts["ramp_high"] = (float(end) for end in ramp_ends(whole, width))
    if whole.rope_type == "yarn" and whole.mscale_all_dim and whole.mscale_rule != "neither":
        # DeepSeek multiplies its softmax scale by this; it is no part of the tables.
        with localcontext(MANY_DIGITS):
            facts["softmax_factor"] = float(magnitude(whole.factor or 1.0, whole.mscale_all_dim) ** 2)
    if whole.rope_type == "longrope":
        facts["list_used"] = list_used(whole)
    if whole.rope_type == "proportional":
        facts["turning_pairs"] = turning_pairs(whole, width)
    return facts


def pair_members(pairing: str, width: int) -> tuple[slice, slice]:
    """The channels that come first in their pairs, and those that come second.

    >>> pair_members("half", 8), pair_members("interleaved", 8)
    ((slice(0, 4, 1), slice(4, 8, 1)), (slice(0, 8, 2), slice(1, 8, 2)))
    """
    if pairing == "half":
        return slice(0, width // 2, 1), slice(width // 2, width, 1)
    return slice(0, width, 2), slice(1, width, 2)


def write_columns(angles: Angles, at: Values, params: Rotary, columns: str, outs: Mapping[str, Array]) -> None:
    """Rows of the cos and the sin table, or of one of them, one column a pair or one a channel in the order of the
    pairing.

    >>> import numpy as np
    >>> out = np.empty((1, 4))
    >>> write_columns(rotary_angles(Rotary(), 4), range(1), Rotary(), "full", {"cos": out})
    >>> out.tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """
    if columns == "half":
        angles.write(at, outs.get("cos"), outs.get("sin"))
        return
    width = next(iter(outs.values())).shape[1]
    first, second = pair_members(params.pairing, width)
    once = {name: out[:, first] for name, out in outs.items()}
    angles.write(at, once.get("cos"), once.get("sin"))
    for name, out in outs.items():
        out[:, second] = once[name]


def rotary_notes(params: Rotary) -> list[str]:
    """What deserves saying about a scaling, an arithmetic that is not exact, or a base that is degenerate."""
    notes = scaling_notes(params)
    if params.xpos_scale_base is None and params.xpos_center:
        notes.append("xpos_center has no effect without xpos_scale_base")
    if params.arithmetic == "float32":
        notes.append(FLOAT32_NOTE)
    if params.arithmetic == "ggml":
        notes.append("arithmetic=ggml multiplies the angle from pair to pair in float32, as llama.cpp does")
    if params.arithmetic == "ggml" and params.truncate is False:
        notes.append("arithmetic=ggml rounds the ends of the ramp to whole pairs whatever truncate says, as llama.cpp")
    if params.rope_type == "frequencies":
        notes.extend(["base has no effect with rope_type=frequencies"] if params.base != DEFAULT_BASE else [])
    elif params.base == 1:
        notes.append("base=1 is degenerate: every frequency is 1, so all pairs turn alike")
    return notes
