"""Sinusoidal encoding of a grid of video patches: a share of the channels for the frame, the row and the column."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from service.engine.grid_sinusoids import CELLS, GridTable, grid_scheme, refuse_indivisible, share, usages_of_any_grid
from service.engine.grids import per_axis
from service.engine.quantities import Grid3D
from service.engine.scheme import Example, Usage

DIFFUSERS = {"axis_order": "t-w-h", "channel_split": "time-quarter", "arithmetic": "float32-coordinates"}


class Sinusoidal3D(GridTable):
    """Parameters of `encodings/sinusoidal-3d`."""

    grid: Grid3D
    axis_order: Annotated[
        Literal["t-h-w", "t-w-h", "w-h-t"],
        Field(description="The order of the channels of time (frames), height and width."),
    ] = "t-h-w"
    channel_split: Annotated[
        Literal["equal", "rounded-up", "rounded-down", "time-quarter", "time-half"],
        Field(
            description="Channels of each axis: `equal` dim/3, a multiple of 6 is needed; `rounded-up` 2 ceil(dim/6), "
            "cut off at dim; `rounded-down` 2 floor(dim/6), the rest zeros; `time-quarter` dim/4 for time, 3 dim/8 for "
            "height and width, a multiple of 16; `time-half` dim/2 and dim/4, a multiple of 8."
        ),
    ] = "equal"


def _cells(params: Sinusoidal3D) -> Mapping[str, int]:
    return dict(zip(CELLS, per_axis(params.grid, 3, "grid"), strict=True))


def _widths(params: Sinusoidal3D) -> Mapping[str, int]:
    widths = _shares(params.dim, params.channel_split)
    names = {"t": "frames", "h": "height", "w": "width"}
    return {names[letter]: widths[names[letter]] for letter in params.axis_order.split("-")}


def _shares(dim: int, channel_split: str) -> Mapping[str, int]:
    if channel_split == "time-quarter":
        refuse_indivisible(dim, 16, channel_split)
        return {"frames": dim // 4, "height": 3 * dim // 8, "width": 3 * dim // 8}
    if channel_split == "time-half":
        refuse_indivisible(dim, 8, channel_split)
        return {"frames": dim // 2, "height": dim // 4, "width": dim // 4}
    return dict.fromkeys(CELLS, share(dim, 3, channel_split))


DESCRIPTION = """\
The cell in frame t, row i and column j has the coordinates t, y = i and x = j (or as `coordinates`, `base_size` and
`interpolation_scale` say). Each axis has its share of the channels, c (see `channel_split`): q = c/2 sines and as many
cosines of its coordinate times `w_k = base^(-k / (q - frequency_shift))`, k = 0 ... q - 1.

**Channel order**: with `axis_order=t-h-w` and `layout=sin-cos` sin(t w), cos(t w), sin(y w), cos(y w), sin(x w),
cos(x w), each with all k; `interleaved` sin, cos, sin, cos, ... in the share of each axis; `sines-first` all sines,
then all cosines.

**Axes**: (position, channel), frame by frame and row by row after `class_tokens` rows of zeros; with `grid_axes=kept`
(frames, height, width, channel). `channel_axis=first` puts the channel before them."""

SCHEME = grid_scheme(
    name="sinusoidal-3d",
    title="Sinusoidal encoding of a 3-D grid",
    explanation=(
        "Patches of a video have a time, a row and a column: each of the three has a share of the channels, with sines "
        "and cosines of its own. The shares and their order differ from model to model."
    ),
    description=DESCRIPTION,
    reference="Yang et al., CogVideoX, 2024; Bardes et al., V-JEPA, 2024",
    params=Sinusoidal3D,
    cells=_cells,
    widths=_widths,
    examples=(
        Example("Two frames of 1 x 2 patches", {"grid": "2,1,2", "dim": "12"}),
        Example(
            "CogVideoX, scaled from 480 x 720 pixels",
            {
                "grid": "3,4,2",
                "dim": "16",
                "axis_order": "t-w-h",
                "channel_split": "time-quarter",
                "interpolation_scale": "1,1.875,1.875",
            },
        ),
    ),
    used_by=(
        Usage("diffusers get_3d_sincos_pos_embed (Allegro)", DIFFUSERS, preset="diffusers"),
        Usage(
            "CogVideoX (spatial scale 1.875)", DIFFUSERS | {"interpolation_scale": "1,1.875,1.875"}, preset="cogvideox"
        ),
        Usage(
            "Prithvi-EO",
            {"axis_order": "w-h-t", "channel_split": "time-quarter", "class_tokens": "1"},
            preset="prithvi",
        ),
        Usage("V-JEPA", {"channel_split": "time-half"}, preset="v-jepa"),
        Usage("V-JEPA, uniform_power=True", {"channel_split": "rounded-up"}, preset="v-jepa-uniform-power"),
        *usages_of_any_grid(3),
    ),
)
