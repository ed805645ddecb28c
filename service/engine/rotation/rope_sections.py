"""The sections of a rotation on several axes: which axis and which place in its frequencies every channel has.

A head of `width` rotated channels has width/2 pairs. `section_rule` gives each pair to an axis, `frequencies` gives it
a place among the frequencies of that axis, and `pairing` puts its two members into channels.
"""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from service.engine.errors import Refusal
from service.engine.quantities import (
    LONGEST_LIST,
    AngleFactor,
    HeadDim,
    Real,
    listed_integers,
    listed_reals,
)
from service.engine.rotation.patches import Patches
from service.engine.rotation.rotary import AngleSign, Rotary, pair_members, table_width
from service.engine.rotation.scaling_parameters import ScalingRule
from service.engine.rotation.turning import Members

MOST_AXES = 4
Indices = NDArray[np.intp]

Sections = Annotated[
    tuple[Annotated[int, Field(ge=0, le=32_768)], ...],
    BeforeValidator(listed_integers("pairs", "16,24,24")),
    Field(
        min_length=1, max_length=MOST_AXES, description="Pairs of channels that each axis turns: rotary_dim/2 in all."
    ),
]
Order = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=MOST_AXES)], ...],
    BeforeValidator(listed_integers("axes", "1,2,0")),
    Field(min_length=1, max_length=MOST_AXES),
]

AxesPairing = Annotated[
    Literal["half", "interleaved", "half-per-axis"],
    Field(
        description="Which channels turn together: `half` k with k + width/2; `interleaved` 2k with 2k + 1; "
        "`half-per-axis` the two halves of each section's channels (Gemma 4, Allegro)."
    ),
]
RawFrequencies = Annotated[
    tuple[Annotated[float, Field(ge=0, le=1e6)], ...],
    BeforeValidator(listed_reals("numbers")),
    Field(
        min_length=1,
        max_length=LONGEST_LIST,
        description="`rope_type=frequencies`: the frequencies themselves, radians per position, one a pair.",
    ),
]


AxesArithmetic = Annotated[
    Literal["exact", "float32", "table-dtype", "ggml"],
    Field(
        description="`exact`: the real-number formula, rounded once; `float32`: step by step as PyTorch model code; "
        "`table-dtype`: the same with every step in the number format of cos and sin (V-JEPA 2; float64: exact); "
        "`ggml`: the running float32 product of llama.cpp."
    ),
]


class RopeAxesRule(Patches, ScalingRule):
    """Parameters that decide a rotation on several axes, apart from the head width."""

    sections: Sections | None = None
    section_order: Annotated[
        Order | None,
        Field(description="The axis of each section, counted from 0 as the positions have them (default 0,1,2,...)."),
    ] = None
    section_rule: Annotated[
        Literal["chunked", "interleaved", "interleaved-ggml", "alternating", "spatial-first", "doubled"],
        Field(
            description="Which axis turns pair k: `chunked` one section after another; `interleaved` k mod the number "
            "of axes while that section lasts, else the first (Qwen3-VL); `interleaved-ggml` of 3, else the fourth; "
            "`alternating` k mod the number of axes; `spatial-first` two sections in turn, then the third (ERNIE); "
            "`doubled` sections of twice the size over channels, not pairs (HunYuan-VL)."
        ),
    ] = "chunked"
    frequencies: Annotated[
        Literal["shared", "per-axis", "strided", "rising", "linear"],
        Field(
            description="The frequency of a pair: `shared` base^(-2k/rotary_dim) for pair k; of the j-th pair of an "
            "axis with n: `per-axis` base^(-j/n); `strided` base^(-2(j axes + axis)/rotary_dim) (Pixtral); `rising` "
            "base^(j/(n - 1)) (LTX); `linear` from 1 to max_frequency. A `rope_type` scales those that are shared or "
            "strided."
        ),
    ] = "shared"
    raw_frequencies: RawFrequencies | None = None
    ntk_factor: Annotated[
        tuple[Annotated[float, Field(ge=1e-3, le=1e6)], ...],
        BeforeValidator(listed_reals("numbers")),
        Field(
            min_length=1,
            max_length=MOST_AXES,
            description="Stretches the base of an axis with n channels to base * factor^(n/(n - 2)): one number, or "
            "one for each axis (Cosmos: 2,1,1), with per-axis frequencies.",
        ),
    ] = (1.0,)
    max_frequency: Annotated[
        Real | None, Field(gt=0, le=1e6, description="The last of `linear` frequencies (max_res / 2 in timm).")
    ] = None
    angle_factor: AngleFactor = "one"
    pairing: AxesPairing = "half"
    angle_sign: AngleSign = "positive"
    arithmetic: AxesArithmetic = "exact"


class RopeAxes(RopeAxesRule):
    """The same with the head width."""

    dim: HeadDim


class Column(NamedTuple):
    """For each column of a table, the axis that turns it and the place of its frequency in that axis' series."""

    axis: Indices
    place: Indices


def letters_of(columns: Column, axes: int) -> str:
    """The axis of every column: time, height and width by their letters, four axes by their numbers.

    >>> letters_of(Column(np.array([0, 1, 1]), np.array([0, 0, 1])), 2)
    'hww'
    """
    names = {2: "hw", 3: "thw"}.get(axes, "0123")
    return "".join(names[axis] for axis in columns.axis.tolist())


def sections_of(params: RopeAxesRule) -> tuple[int, ...]:
    """The pairs of each axis; refuses their absence."""
    if params.sections is None:
        detail = "sections is missing: how many pairs each axis turns, or a pasted block with mrope_section"
        raise Refusal("sections", "missing", detail)
    return params.sections


def on_one_axis(params: RopeAxesRule) -> Rotary:
    """The rotation whose frequencies the axes share.

    >>> on_one_axis(RopeAxesRule(sections=(2, 2), rope_type="linear", factor=4)).factor
    4.0
    """
    given = {name: getattr(params, name) for name in (*ScalingRule.model_fields, "angle_sign", "arithmetic")}
    return Rotary.model_construct(**given, frequencies=params.raw_frequencies)


def rotated(params: RopeAxes) -> int:
    """How many channels turn; refuses sections that do not make them up."""
    sections = sections_of(params)
    width = table_width(on_one_axis(params), params.dim)
    if sum(sections) != width // 2:
        name = "dim" if params.rotary_dim is None and params.partial_rotary_factor is None else "rotary_dim"
        detail = f"the sections sum to {sum(sections)}, expected {width // 2}: half of {name} {width}"
        detail += _reached(params, width // 2)
        raise Refusal("sections", "sum", detail, limit=width // 2, requested=sum(sections))
    return width


def _reached(params: RopeAxes, pairs: int) -> str:
    """What libraries make of sections that do not make up a head: of interleaved ones, as far as there are pairs."""
    if params.section_rule != "interleaved":
        return ""
    counts = np.bincount(_sections_of(params, pairs), minlength=len(sections_of(params)))
    return f"; such as {','.join(map(str, counts.tolist()))}, which is what Qwen3-VL's code and timm make of these"


def order_of(params: RopeAxes) -> tuple[int, ...]:
    """The axis of each section."""
    axes = len(sections_of(params))
    order = tuple(range(axes)) if params.section_order is None else params.section_order
    if sorted(order) != list(range(axes)):
        detail = f"section_order is {','.join(map(str, order))}; each of the axes 0 to {axes - 1} is needed once"
        raise Refusal("section_order", "value", detail)
    return order


def pair_axes(params: RopeAxes, pairs: int) -> Indices:
    """The axis that turns each pair."""
    return np.array(order_of(params), np.intp)[_sections_of(params, pairs)]


def _sections_of(params: RopeAxes, pairs: int) -> Indices:
    """The section of each pair (of each channel with `doubled`); refuses sections that a rule has no meaning for.

    >>> rule = RopeAxes(dim=16, sections=(4, 2, 2), section_rule="interleaved")
    >>> _sections_of(rule, 8).tolist()
    [0, 1, 2, 0, 1, 2, 0, 0]
    """
    sections, rule = np.array(sections_of(params), np.intp), params.section_rule
    pair = np.arange(pairs)
    if rule == "chunked":
        return np.repeat(np.arange(len(sections)), sections)
    if rule == "doubled":
        return np.repeat(np.arange(len(sections)), 2 * sections)
    if rule == "spatial-first":
        _refuse_sections(
            params, len(sections) == 3 and sections[0] == sections[1], "three sections, the first two equal"
        )
        return np.where(pair < 2 * sections[0], pair % 2, 2)
    if rule == "alternating":
        _refuse_sections(params, len(set(sections_of(params))) == 1, "sections of one size")
        return pair % len(sections)
    if rule == "interleaved-ggml":
        _refuse_sections(params, len(sections) == 4, "four sections, the last of them mostly 0")
        turn = pair % 3
        return np.where(pair < 3 * sections[turn], turn, 3)
    turn = pair % len(sections)
    return np.where(pair < len(sections) * sections[turn], turn, 0)


def _refuse_sections(params: RopeAxes, proper: bool, wanted: str) -> None:
    if not proper:
        detail = (
            f"sections is {','.join(map(str, sections_of(params)))}; section_rule={params.section_rule} takes {wanted}"
        )
        raise Refusal("sections", "value", detail)


def _places(params: RopeAxes, owners: Indices) -> Indices:
    """Where in the series of its axis each pair has its frequency."""
    if params.frequencies == "shared":
        return np.arange(len(owners))
    places = np.empty(len(owners), np.intp)
    for axis in range(len(sections_of(params))):
        mine = owners == axis
        places[mine] = np.arange(np.count_nonzero(mine))
        if params.frequencies == "strided":
            places[mine] = places[mine] * len(sections_of(params)) + axis
    return places


def pair_columns(params: RopeAxes) -> Column:
    """One column a pair; refuses `doubled`, whose pairs have no one axis."""
    if params.section_rule == "doubled":
        detail = "section_rule=doubled gives the two channels of a pair to different axes: ask for columns=full"
        raise Refusal("section_rule", "conflict", detail)
    owners = pair_axes(params, rotated(params) // 2)
    return Column(owners, _places(params, owners))


def channel_columns(params: RopeAxes) -> Column:
    """One column a rotated channel, in the order of the pairing."""
    width = rotated(params)
    if params.section_rule == "doubled":
        if params.frequencies != "shared" or params.pairing != "half":
            detail = "section_rule=doubled is laid over pairing=half and frequencies=shared"
            raise Refusal("section_rule", "conflict", detail)
        return Column(pair_axes(params, width), np.arange(width) % (width // 2))
    once = pair_columns(params)
    full = Column(np.empty(width, np.intp), np.empty(width, np.intp))
    for members in members_of(params, width):
        full.axis[members], full.place[members] = once
    return full


def members_of(params: RopeAxes, width: int) -> Members:
    """The channels that come first in their pairs, and those that come second."""
    if params.pairing != "half-per-axis":
        return pair_members(params.pairing, width)
    if params.section_rule != "chunked":
        detail = f"pairing=half-per-axis needs section_rule=chunked; it is {params.section_rule}"
        raise Refusal("pairing", "conflict", detail)
    sections = np.array(sections_of(params), np.intp)
    starts = np.repeat(np.cumsum(sections) - sections, sections)
    firsts = np.arange(width // 2) + starts
    return firsts, firsts + np.repeat(sections, sections)
