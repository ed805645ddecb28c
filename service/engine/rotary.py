"""What every rotary scheme shares: the rotated width, the frequencies in each arithmetic, and cos and sin of rows."""

from fractions import Fraction

from service.engine.arithmetics import FLOAT32_NOTE, Angles, Exact, Float32, Ggml, refuse_base_of_no_model
from service.engine.errors import Refusal
from service.engine.frequencies import fastest_frequency
from service.engine.positions import Values
from service.engine.quantities import Arithmetic, Base, Pairing, PartialRotaryFactor, RotaryDim
from service.engine.reals import geometric
from service.engine.scheme import Array, Params
from service.engine.single import float32_frequencies
from service.engine.waves import Waves


class RotaryWidth(Params):
    """Which channels of a head turn: the first `rotary_dim`, or a share of them; all unless said otherwise."""

    rotary_dim: RotaryDim | None = None
    partial_rotary_factor: PartialRotaryFactor | None = None


class Rotary(RotaryWidth):
    """Parameters that decide a rotation, apart from the head width and the positions."""

    base: Base = 10_000.0
    pairing: Pairing = "half"
    arithmetic: Arithmetic = "exact"


def rotary_width(params: RotaryWidth, dim: int) -> int:
    """How many of the first channels turn: all, `rotary_dim`, or int(dim * partial_rotary_factor).

    >>> rotary_width(Rotary(partial_rotary_factor=0.4), 80)
    32
    """
    if params.rotary_dim is not None and params.partial_rotary_factor is not None:
        raise Refusal(
            "partial_rotary_factor",
            "conflict",
            "rotary_dim and partial_rotary_factor say the same thing twice; give one of them",
        )
    name, width = "dim", dim
    if params.rotary_dim is not None:
        name, width = "rotary_dim", params.rotary_dim
    elif params.partial_rotary_factor is not None:
        name, width = "partial_rotary_factor", int(dim * params.partial_rotary_factor)
    if width > dim:
        raise Refusal(name, "out_of_range", f"rotary_dim is {width}; the head has {dim} channels", limit=dim)
    if width < 2 or width % 2:
        raise Refusal(
            name,
            "odd" if width % 2 else "out_of_range",
            f"{name} makes the rotated width {width}; channels turn in pairs, so it must be even and at least 2",
        )
    return width


def fastest(params: Rotary, width: int) -> float:
    """About the largest frequency; refuses bases that an arithmetic cannot work with."""
    refuse_base_of_no_model(params.base, params.arithmetic)
    return fastest_frequency(params.base, (width - 2) / width, "base")


def rotary_angles(params: Rotary, width: int) -> Angles:
    """The angles of `width` rotated channels in the arithmetic asked for."""
    if params.arithmetic == "float32":
        return Float32(float32_frequencies(params.base, width, width // 2))
    if params.arithmetic == "ggml":
        return Ggml(params.base, width)
    return Exact(Waves(geometric(params.base, [Fraction(-2 * pair, width) for pair in range(width // 2)])))


def pair_members(pairing: str, width: int) -> tuple[slice, slice]:
    """The channels that come first in their pairs, and those that come second.

    >>> pair_members("half", 8), pair_members("interleaved", 8)
    ((slice(0, 4, 1), slice(4, 8, 1)), (slice(0, 8, 2), slice(1, 8, 2)))
    """
    if pairing == "half":
        return slice(0, width // 2, 1), slice(width // 2, width, 1)
    return slice(0, width, 2), slice(1, width, 2)


def write_columns(angles: Angles, at: Values, tensor: str, params: Rotary, columns: str, out: Array) -> None:
    """Rows of the cos or the sin table into `out`, one column a pair or one a channel in the order of the pairing.

    >>> import numpy as np
    >>> out = np.empty((1, 4))
    >>> write_columns(rotary_angles(Rotary(), 4), range(1), "cos", Rotary(), "full", out)
    >>> out.tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """
    first, second = pair_members(params.pairing, out.shape[1])
    once = out if columns == "half" else out[:, first]
    angles.write(at, *((once, None) if tensor == "cos" else (None, once)))
    if columns == "full":
        out[:, second] = once


def arithmetic_note(params: Rotary) -> list[str]:
    """What deserves saying about an arithmetic that is not exact, or a base that is degenerate."""
    notes = []
    if params.arithmetic == "float32":
        notes.append(FLOAT32_NOTE)
    if params.arithmetic == "ggml":
        notes.append("arithmetic=ggml multiplies the angle from pair to pair in float32, as llama.cpp does")
    if params.base == 1:
        notes.append("base=1 is degenerate: every frequency is 1, so all pairs turn alike")
    return notes
