"""Diffusion timestep embedding: sinusoids of a real-valued time (Ho et al., 2020; diffusers, guided-diffusion)."""

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.arithmetics import float32_notes, refuse_base_of_no_model
from service.engine.errors import Refusal
from service.engine.frequencies import FASTEST_BITS, wave_bytes
from service.engine.numbers.reals import Reals, angle_factor, geometric
from service.engine.numbers.single import Singles, divided_float32_frequencies, write_float32
from service.engine.positions import POSITIONS_INPUT, Positioned, part, sequence, where
from service.engine.quantities import LARGEST_EXACT_INTEGER, Base, Dim, DType, FrequencyShift, Real
from service.engine.rounding import DTYPES
from service.engine.scheme import Array, Example, Inputs, Scheme, Tensor, Tensors, Usage, unused
from service.engine.sinusoids import SinusoidalTable, channels, fastest, frequencies, spread
from service.engine.waves import Waves


class Timestep(Positioned):
    """Parameters of `encodings/timestep`."""

    dim: Dim
    base: Base = 10_000.0
    layout: Annotated[
        Literal["sin-cos", "cos-sin"],
        Field(
            description="`sin-cos` all sines, then all cosines; `cos-sin` the reverse (flip_sin_to_cos in diffusers)."
        ),
    ] = "sin-cos"
    frequency_shift: Annotated[
        FrequencyShift,
        Field(description="w_k = base^(-k / (floor(dim/2) - frequency_shift)): downscale_freq_shift in diffusers."),
    ] = 1.0
    scale: Annotated[
        Real, Field(ge=1e-9, le=1e9, description="Multiplies the angle, not the result: scale * time * w_k.")
    ] = 1.0
    min_period: Annotated[
        Real | None,
        Field(ge=1e-9, le=1e9, description="The shortest period, of the first frequency (pi0: 0.004); then no base."),
    ] = None
    max_period: Annotated[
        Real | None, Field(ge=1e-9, le=1e9, description="The longest period, of the last frequency (pi0: 4).")
    ] = None
    arithmetic: Annotated[
        Literal["exact", "float32"],
        Field(description="`exact`: the real-number formula, rounded once; `float32`: step by step as diffusers does."),
    ] = "exact"
    dtype: DType = "float32"


def _table(params: Timestep) -> SinusoidalTable:
    return SinusoidalTable(base=params.base, odd_width="zero-column", frequency_shift=params.frequency_shift)


def _periods(params: Timestep) -> tuple[float, float] | None:
    """The shortest and the longest period, where they are given."""
    given = (params.min_period, params.max_period)
    for name, this, other in (("min_period", *given), ("max_period", *given[::-1])):
        if this is None and other is not None:
            detail = f"{name} is missing: the shortest and the longest period come together"
            lone = f"; diffusers' max_period alone is base={other:g} here" if name == "min_period" else ""
            raise Refusal(name, "missing", detail + lone)
    if given[0] is None or given[1] is None:
        return None
    if params.arithmetic == "float32":
        detail = "arithmetic=float32 takes the steps of diffusers, which has no periods: leave it out"
        raise Refusal("arithmetic", "conflict", detail)
    return given[0], given[1]


def _fastest(params: Timestep) -> float:
    """About the largest frequency."""
    periods = _periods(params)
    if periods is None:
        return fastest(_table(params), params.dim)
    if params.dim == 1:
        raise Refusal("dim", "out_of_range", "dim is 1, which leaves no channel beside a column of zeros: 2 would do")
    return 6.3 / min(periods)


def _frequencies(params: Timestep) -> Reals:
    periods = _periods(params)
    if periods is None:
        return frequencies(_table(params), params.dim)
    half = params.dim // 2
    shares = [Fraction(k, max(half - 1, 1)) for k in range(half)]
    shortest, longest = (
        geometric(period, exponents)
        for period, exponents in zip(periods, ([1 - share for share in shares], shares), strict=True)
    )
    return (shortest * longest).reciprocal() * angle_factor("two-pi")


def _notes(params: Timestep, _inputs: Inputs) -> list[str]:
    said = float32_notes(params.arithmetic)
    return (
        said if _periods(params) is None else unused(params, ("base", "frequency_shift"), "min_period and max_period")
    )


def _tensors(params: Timestep, inputs: Inputs) -> Tensors:
    fast = _fastest(params) * params.scale
    if fast > 2.0**FASTEST_BITS:
        _refuse_scale(params, f"makes frequencies of about {fast:.3g} radians per unit of time; 2^63 is the most")
    places = where(params, inputs)
    refuse_base_of_no_model(params.base, params.arithmetic)
    farthest = fast * places.farthest
    if params.arithmetic == "float32" and farthest > LARGEST_EXACT_INTEGER:
        _refuse_scale(params, f"makes angles of about {farthest:.3g}; arithmetic=float32 takes 2^53 at most")
    return {"embedding": Tensor((*places.axes, "channel"), (*places.shape, params.dim), params.dtype)}


def _refuse_scale(params: Timestep, why: str) -> None:
    raise Refusal("scale", "out_of_range", f"scale is {params.scale:g}, which {why}")


def _prepare(params: Timestep, _inputs: Inputs) -> Waves | Singles:
    if params.arithmetic == "exact":
        return Waves(_frequencies(params) * params.scale)
    return divided_float32_frequencies(params.base, float(spread(_table(params), params.dim)), params.dim // 2)


def _rows(params: Timestep, inputs: Inputs, state: Waves | Singles, _tensor: str, start: int, stop: int) -> Array:
    out = np.zeros((stop - start, params.dim), DTYPES[params.dtype])
    order = channels(params.dim, params.layout, "zero-column")
    sines, cosines = out[:, order.sines], out[:, order.cosines]
    at = part(params, inputs, start, stop)
    if isinstance(state, Waves):
        state.write(at, sines, cosines)
    else:
        times = np.asarray(at, np.float64).astype(np.float32)
        write_float32(np.float32(params.scale) * (times[:, None] * state), sines, cosines)
    return out


DESCRIPTION = """\
For time t (any real number; give times as `positions`) and h = floor(dim/2) the angles are `scale * t * w_k`,
`w_k = base^(-k / (h - frequency_shift))`, k = 0 ... h - 1; `base` is max_period in diffusers. With
`min_period` and `max_period` they are `scale * t * 2 pi / P_k`, `P_k = min_period (max_period / min_period)^(k / (h -
1))`, as flow-matching policies have it.

**Channel order**: `layout=sin-cos` is h sines, then h cosines; `cos-sin` the reverse. An odd `dim` ends in a column of
zeros. **Axes**: (position, channel)."""

SCHEME: Scheme[Timestep, Waves | Singles] = Scheme(
    family="encodings",
    name="timestep",
    title="Diffusion timestep embedding",
    explanation=(
        "A diffusion model must know how noisy its input is. The time of a step becomes sines and cosines of many "
        "speeds, the same idea as the positions of a sentence, and the network reads the noise level from them."
    ),
    description=DESCRIPTION,
    reference="Ho et al., Denoising Diffusion Probabilistic Models, 2020; diffusers 0.42.1, get_timestep_embedding",
    params=Timestep,
    rounding="correct",
    tensors=_tensors,
    sequence=sequence,
    prepare=_prepare,
    rows=_rows,
    notes=_notes,
    state_bytes=lambda params, _inputs: wave_bytes(params.dim),
    inputs=(POSITIONS_INPUT,),
    examples=(
        Example("Timestep 10 as diffusers has it by default", {"positions": "10", "dim": "8"}),
        Example(
            "Stable Diffusion's embedding in the float32 steps of its code",
            {"positions": "981", "dim": "320", "layout": "cos-sin", "frequency_shift": "0", "arithmetic": "float32"},
        ),
        Example(
            "A flow-matching time as pi0 has it",
            {"positions": "0.25", "dim": "8", "min_period": "0.004", "max_period": "4"},
        ),
        Example("Times of a batch, in the body", {"dim": "7"}, {"positions": [[0.5], [999]]}),
    ),
    used_by=(
        Usage("diffusers get_timestep_embedding by default; DDPM checkpoints", {}, "ddpm"),
        Usage(
            "Stable Diffusion, SD3, Flux (t * 1000), PixArt, diffusers UNet2DModel by default; guided-diffusion, DiT; "
            "VibeVoice, Pocket TTS, Gradium",
            {"layout": "cos-sin", "frequency_shift": "0"},
            "stable-diffusion",
        ),
        Usage("diffusers CombinedTimestepLabelEmbeddings (DiT)", {"layout": "cos-sin"}, "dit-labels"),
        Usage("AuraFlow, QwenImage", {"layout": "cos-sin", "frequency_shift": "0", "scale": "1000"}, "aura-flow"),
        Usage("ERNIE-Image", {"frequency_shift": "0"}, "ernie-image"),
        Usage("Qwen2.5-Omni token2wav", {"scale": "1000"}, "qwen2-5-omni"),
        Usage("pi0 (PI0TimestepEmbeddings, openpi)", {"min_period": "0.004", "max_period": "4"}, "pi0"),
    ),
    properties={"learned parameters": "none", "extrapolates": "defined at any time"},
)
