"""Sinusoidal encoding of a grid of patches: a share of the channels for the row, and one for the column."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from service.engine.grid_sinusoids import AxisOrder, GridTable, grid_scheme, share, usages_of_any_grid
from service.engine.grids import per_axis
from service.engine.quantities import Grid2D
from service.engine.scheme import Example, Usage

DIFFUSERS = {"axis_order": "w-first", "arithmetic": "float32-coordinates"}
DOWN_THE_COLUMNS = {"axis_order": "w-first", "token_order": "column-major", "arithmetic": "float32"}


class Sinusoidal2D(GridTable):
    """Parameters of `encodings/sinusoidal-2d`."""

    grid: Grid2D
    axis_order: AxisOrder = "h-first"
    channel_split: Annotated[
        Literal["equal", "rounded-up", "rounded-down"],
        Field(
            description="Channels of each axis: `equal` dim/2, a multiple of 4 is needed; `rounded-up` 2 ceil(dim/4), "
            "cut off at dim; `rounded-down` 2 floor(dim/4), the rest zeros."
        ),
    ] = "equal"
    token_order: Annotated[
        Literal["row-major", "column-major"],
        Field(
            description="Order of the cells: `row-major` along the rows of the image; `column-major` down its columns."
        ),
    ] = "row-major"


def _cells(params: Sinusoidal2D) -> Mapping[str, int]:
    height, width = per_axis(params.grid, 2, "grid")
    if params.token_order == "row-major":
        return {"height": height, "width": width}
    return {"width": width, "height": height}


def _widths(params: Sinusoidal2D) -> Mapping[str, int]:
    order = ("height", "width") if params.axis_order == "h-first" else ("width", "height")
    return dict.fromkeys(order, share(params.dim, 2, params.channel_split))


DESCRIPTION = """\
The cell in row i and column j of a grid has the coordinates y = i and x = j (or as `coordinates`, `base_size` and
`interpolation_scale` say: `(i + 1/2) * base_size / cells / interpolation_scale`). Each axis has half of the channels,
q = dim/4 sines and as many cosines of `y w_k` or `x w_k`, `w_k = base^(-k / (q - frequency_shift))`, k = 0 ... q - 1.

**Channel order**: with `axis_order=h-first` and `layout=sin-cos` sin(y w), cos(y w), sin(x w), cos(x w), each with all
k; `w-first` has x before y; `interleaved` sin, cos, sin, cos, ... in the half of each axis; `sines-first` sin(y w),
sin(x w), cos(y w), cos(x w).

**Axes**: (position, channel), the cells row by row after `class_tokens` rows of zeros; with `grid_axes=kept` (height,
width, channel). `channel_axis=first` puts the channel before them."""

SCHEME = grid_scheme(
    name="sinusoidal-2d",
    title="Sinusoidal encoding of a 2-D grid",
    explanation=(
        "Patches of an image have a row and a column instead of one position, so half of the channels encode the one "
        "and half the other. Vision transformers add this table to their patches; libraries disagree about which half "
        "comes first, and that is what the parameters choose."
    ),
    description=DESCRIPTION,
    reference="Chen et al., MoCo v3, 2021; He et al., Masked Autoencoders Are Scalable Vision Learners, 2022",
    params=Sinusoidal2D,
    cells=_cells,
    widths=_widths,
    examples=(
        Example("Two rows of three patches", {"grid": "2,3", "dim": "8"}),
        Example(
            "MAE: column first, after a class token",
            {"grid": "2,3", "dim": "8", "axis_order": "w-first", "class_tokens": "1"},
        ),
        Example(
            "Patch centres, scaled to the trained grid of 14 x 14",
            {"grid": "4,6", "dim": "12", "coordinates": "half-pixel", "base_size": "14", "grid_axes": "kept"},
        ),
    ),
    used_by=(
        Usage(
            "transformers' build_2d_sinusoidal_position_embedding: AIMv2, RT-DETR, D-FINE, DEIMv2, PP-DocLayout",
            {},
            preset="rt-detr",
        ),
        Usage("MAE, ViT-MAE", {"axis_order": "w-first", "class_tokens": "1"}, preset="mae"),
        Usage("GraniteDocling; MAE without the class token", {"axis_order": "w-first"}, preset="granite-docling"),
        Usage("diffusers get_2d_sincos_pos_embed (DiT, PixArt)", DIFFUSERS | {"base_size": "16"}, preset="diffusers"),
        Usage(
            "Stable Diffusion 3 (diffusers PatchEmbed: 128 latent pixels, patches of 2)",
            DIFFUSERS | {"base_size": "64", "max_grid": "192"},
            preset="stable-diffusion-3",
        ),
        Usage("MoCo v3", DOWN_THE_COLUMNS | {"class_tokens": "1"}, preset="moco"),
        Usage("OmDet-Turbo; RT-DETR's original code", DOWN_THE_COLUMNS, preset="omdet-turbo"),
        Usage(
            "big_vision and vit-pytorch posemb_sincos_2d (SimpleViT)",
            {"axis_order": "w-first", "frequency_shift": "1", "arithmetic": "float32"},
            preset="big-vision",
        ),
        Usage("timm build_sincos2d_pos_embed", {"layout": "sines-first", "arithmetic": "float32"}, preset="timm"),
        Usage("timm, interleave_sin_cos=True", {"arithmetic": "float32"}, preset="timm-interleaved"),
        Usage("timm, reverse_coord=True", DOWN_THE_COLUMNS | {"layout": "sines-first"}, preset="timm-reversed"),
        *usages_of_any_grid(2),
    ),
)
