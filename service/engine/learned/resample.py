"""The caller's own position table with another number of rows, or on another grid."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import isqrt, prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from service.engine.errors import Refusal
from service.engine.numbers.pairs import Floats
from service.engine.numbers.weighted import LARGEST, largest_values, working_bytes, write_sums
from service.engine.quantities import LARGEST_EXACT_INTEGER, Grid2D, Integer, Length
from service.engine.resampling import Resizing, Step, Taps, align_corners, crossed, half_pixel, plus_tenth
from service.engine.rounding import DTYPES, nearest
from service.engine.scheme import Array, Example, Facts, Input, Inputs, Params, Scheme, Tensor, Tensors, Usage, unused
from service.engine.table_rows import as_table
from service.engine.vectors import SameDType, answer_dtype, block, refuse_overflow, vector_axes

MOST_OLD = 2**20  # rows, or cells along an axis, between which is interpolated
MOST_NEW = 2**22  # rows: each takes some 40 microseconds, however few its channels
MOST_TAPS = 1024


class Resample(Params):
    """Parameters of `learned/resample`."""

    length: Annotated[
        Length | None, Field(description="New number of rows, `prefix` rows not counted; or else say `grid`.")
    ] = None
    grid: Annotated[
        Grid2D | None,
        Field(description="New grid of the rows behind the prefix: height,width; one number means a square."),
    ] = None
    old_grid: Annotated[
        Grid2D | None,
        Field(description="Grid of the rows that x has behind the prefix (default: a square, or as x is shaped)."),
    ] = None
    prefix: Annotated[
        Integer,
        Field(ge=0, le=LARGEST_EXACT_INTEGER, description="Rows in front (class tokens) that stay as they are."),
    ] = 0
    method: Annotated[
        Literal["linear", "bilinear", "bicubic", "repeat", "pad"],
        Field(
            description="`linear` of a sequence, `bilinear` of a grid; `bicubic` of either; `repeat` begins anew "
            "behind the last row, `pad` continues with `fill`: both keep old rows as they are, and cut off where less "
            "is wanted."
        ),
    ] = "bicubic"
    sampling: Annotated[
        Literal["half-pixel", "align-corners"],
        Field(
            description="Where new rows lie: `half-pixel` as cells from edge to edge (align_corners=False); "
            "`align-corners` with the first and the last row on the old ones."
        ),
    ] = "half-pixel"
    antialias: Annotated[
        Literal["none", "antialias"],
        Field(
            description="`none` two or four old rows along an axis; `antialias` as many as a new row covers, with "
            "the coefficient -0.5 and edges=renormalise, also where rows become more (PyTorch's antialias=True, "
            "Pillow)."
        ),
    ] = "none"
    bicubic_coefficient: Annotated[
        Literal["-0.75", "-0.5"] | None,
        Field(
            description="a of the cubic kernel: -0.75 (PyTorch, OpenCV) or -0.5 (Pillow, TensorFlow, JAX); by default "
            "-0.75, and -0.5 with antialiasing."
        ),
    ] = None
    edges: Annotated[
        Literal["replicate", "renormalise"] | None,
        Field(
            description="Rows before the first or behind the last: `replicate` counts the outermost again (PyTorch); "
            "`renormalise` leaves them out and divides by the rest (TensorFlow, JAX; with antialiasing always)."
        ),
    ] = None
    ratio: Annotated[
        Literal["size", "plus-tenth"],
        Field(
            description="Old over new size as it is; or `plus-tenth` old / (new + 0.1), as where a scale_factor is "
            "given instead of a size (DINO, DINOv2's own repository); an axis whose size stays is then copied, unless "
            "it is bicubic without antialiasing (PyTorch)."
        ),
    ] = "size"
    fill: Annotated[
        Literal["zeros", "last-row"],
        Field(description="What method=pad adds: `zeros`, or `last-row` the last row, on a grid the nearest one."),
    ] = "zeros"
    dtype: SameDType = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The table as (rows, channels), the sizes of the part that is resized before and after: one axis or two."""

    table: Array
    prefix: int
    old: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def body(self) -> Array:
        """The rows behind the prefix."""
        return self.table[self.prefix :]


def _shape(params: Resample, inputs: Inputs) -> Shape:
    """The sizes; refuses those that do not fit the table."""
    if (params.length is None) == (params.grid is None):
        detail = "give length= for a sequence, or grid= for a grid" + (", not both" if params.grid else "")
        raise Refusal("length", "conflict" if params.grid else "missing", detail)
    x = inputs["x"]
    if params.grid is not None and _has_grid(x):
        return _shaped_grid(params, x)
    table = as_table("x", x)
    rows = len(table) - params.prefix
    if rows < 1:
        detail = f"prefix is {params.prefix}, and x has {len(table)} rows: at least one must be left to resize"
        raise Refusal("prefix", "out_of_range", detail, limit=len(table) - 1, requested=params.prefix)
    if params.grid is None:
        if params.old_grid is not None:
            raise Refusal(
                "old_grid", "conflict", "old_grid has no meaning with length=: give grid= too, or leave it out"
            )
        assert params.length is not None
        return Shape(table, params.prefix, (rows,), (params.length,))
    return Shape(table, params.prefix, _old_grid(params, rows), _sides(params.grid))


def _sides(grid: tuple[int, ...]) -> tuple[int, int]:
    height, width = (grid * 2)[:2]
    return height, width


def _has_grid(x: Array) -> bool:
    """Whether the array itself has the axes of a grid: (…1, height, width, channels)."""
    return x.ndim > 2 and x.shape[-3] > 1


def _shaped_grid(params: Resample, x: Array) -> Shape:
    assert params.grid is not None
    table = as_table("x", x.reshape((*x.shape[:-3], x.shape[-3] * x.shape[-2], x.shape[-1])))
    for name in ("prefix", "old_grid"):
        given = getattr(params, name)
        if given and (name == "prefix" or _sides(given) != x.shape[-3:-1]):
            detail = f"x has the shape {x.shape}, a grid of {x.shape[-3]} x {x.shape[-2]} cells: leave {name} out"
            raise Refusal(name, "conflict", detail)
    return Shape(table, 0, (x.shape[-3], x.shape[-2]), _sides(params.grid))


def _old_grid(params: Resample, rows: int) -> tuple[int, int]:
    """The grid of the old rows, which must be as many."""
    total, side = rows + params.prefix, isqrt(rows)
    sides = (side, side) if params.old_grid is None else _sides(params.old_grid)
    if prod(sides) == rows:
        return sides
    tried = sides if params.old_grid is not None or rows - side**2 <= side else (side + 1, side + 1)
    said = f"{total} rows are not {tried[0]} x {tried[1]} + {params.prefix} prefix rows"
    needed = total - prod(tried)
    advice = f"prefix={needed} would do" if 0 <= needed < 10 else "old_grid=height,width says which grid they are"
    raise Refusal("old_grid" if params.old_grid else "prefix", "shape", f"{said}; {advice}", requested=total)


def _resizings(params: Resample, shape: Shape) -> tuple[Resizing, ...]:
    """How each axis is resized, for a method that interpolates."""
    return tuple(
        Resizing(
            old,
            _step(params, old, new),
            "cubic" if params.method == "bicubic" else "linear",
            3 if params.bicubic_coefficient == "-0.75" else 2,
            params.antialias == "antialias",
            params.edges or "replicate",
        )
        for old, new in zip(shape.old, shape.new, strict=True)
    )


def _step(params: Resample, old: int, new: int) -> Step:
    if params.sampling == "align-corners":
        return align_corners(old, new)
    # PyTorch copies along an axis whose size stays, whatever the ratio, unless it is bicubic without antialiasing.
    copied = old == new and (params.method != "bicubic" or params.antialias == "antialias")
    return plus_tenth(old, new) if params.ratio == "plus-tenth" and not copied else half_pixel(old, new)


def _interpolates(params: Resample, shape: Shape) -> bool:
    """Whether numbers are computed; a table of the same size, and what is repeated or padded, is copied."""
    return shape.old != shape.new and params.method not in ("repeat", "pad")


def _resolve(params: Resample, inputs: Inputs) -> Resample:
    """With the grids and the conventions that follow from others filled in; refuses those that contradict."""
    shape = _shape(params, inputs)
    filled: dict[str, object] = {} if len(shape.old) == 1 else {"grid": shape.new, "old_grid": shape.old}
    if params.method in ("repeat", "pad"):
        return params.model_copy(update=filled)
    _refuse_contradictions(params, len(shape.old))
    smooth = params.antialias == "antialias"
    filled["edges"] = params.edges or ("renormalise" if smooth else "replicate")
    if params.method == "bicubic":
        filled["bicubic_coefficient"] = params.bicubic_coefficient or ("-0.5" if smooth else "-0.75")
    return params.model_copy(update=filled)


def _refuse_contradictions(params: Resample, axes: int) -> None:
    if (params.method, axes) in (("linear", 2), ("bilinear", 1)):
        other, what = ("bilinear", "a grid") if axes == 2 else ("linear", "a sequence (length=)")
        raise Refusal("method", "conflict", f"method is {params.method}; of {what} it is {other}, or bicubic")
    said = {name: getattr(params, name) for name in ("antialias", "sampling", "ratio", "bicubic_coefficient", "edges")}
    for (name, value), (other, its), why in CONTRADICTIONS:
        if said[name] == value and said[other] == its:
            raise Refusal(other, "conflict", f"{other}={its} and {name}={value} exclude each other: {why}")


CONTRADICTIONS = (
    (("antialias", "antialias"), ("sampling", "align-corners"), "with antialiasing rows are cells: half-pixel"),
    (("antialias", "antialias"), ("bicubic_coefficient", "-0.75"), "with antialiasing it is -0.5"),
    (("antialias", "antialias"), ("edges", "replicate"), "with antialiasing they are renormalised"),
    (("sampling", "align-corners"), ("ratio", "plus-tenth"), "corners leave no ratio to choose"),
)


def _tensors(params: Resample, inputs: Inputs) -> Tensors:
    x = inputs["x"]
    shape = _shape(params, inputs)
    filled = _resolve(params, inputs)
    dtype = answer_dtype(params.dtype, x)
    refuse_overflow("x", x, dtype)
    if _interpolates(params, shape):
        _refuse_many(filled, shape)
        _refuse_values(params, shape, dtype)
    if params.grid is not None and _has_grid(x):
        answered = (*x.shape[:-3], *shape.new, x.shape[-1])
        return {"x": Tensor((*_ones(x.ndim - 3), "row", "column", "channel"), answered, dtype)}
    answered = (*x.shape[:-2], shape.prefix + prod(shape.new), x.shape[-1])
    return {"x": Tensor((*_ones(x.ndim - 2), "position", "channel"), answered, dtype)}


def _ones(count: int) -> tuple[str, ...]:
    return vector_axes(count + 1, ("channel",))[:-1]


def _refuse_many(filled: Resample, shape: Shape) -> None:
    """Refuse more rows than are interpolated between, and new rows made of too many old ones."""
    if max(shape.old) > MOST_OLD:
        detail = f"x has {max(shape.old)} rows along an axis; {MOST_OLD} can be interpolated between"
        raise Refusal("/tensors/x", "too_large", detail, limit=MOST_OLD, requested=max(shape.old))
    if prod(shape.new) > MOST_NEW:
        detail = f"{prod(shape.new)} rows are asked for; {MOST_NEW} are interpolated at most"
        parameter = "length" if filled.grid is None else "grid"
        raise Refusal(parameter, "too_large", detail, limit=MOST_NEW, requested=prod(shape.new))
    taps = prod(axis.most for axis in _resizings(filled, shape))
    if taps > MOST_TAPS:
        detail = f"a new row would be made of {taps} old ones; {MOST_TAPS} can be: shrink in two steps"
        raise Refusal("antialias", "too_large", detail, limit=MOST_TAPS, requested=taps)


def _refuse_values(params: Resample, shape: Shape, dtype: str) -> None:
    """Refuse numbers that cannot be weighted: NaN, infinities, and what a weighted sum might exceed its format with."""
    largest = float(largest_values(shape.body).max())
    # The sizes of bicubic weights add up to less than 2 along an axis.
    swing = 4.0 if params.method == "bicubic" else 1.0
    with np.errstate(over="ignore"):
        held = np.isfinite(nearest(np.array([swing * largest]), DTYPES[dtype]).astype(np.float64)[0])
    if not held or largest > LARGEST:
        detail = f"x holds numbers up to {largest:g} in size; {dtype} and 2^700 must hold {swing:g} times that"
        raise Refusal("/tensors/x", "out_of_range", f"{detail}, and infinities and NaN cannot be weighted")


@dataclass(frozen=True, slots=True)
class State:
    """What blocks share: the shape, and for interpolation the axes and the largest values of the columns."""

    shape: Shape
    resizings: tuple[Resizing, ...]
    largest: Floats | None


def _prepare(params: Resample, inputs: Inputs) -> State:
    shape = _shape(params, inputs)
    filled = _resolve(params, inputs)
    largest = largest_values(shape.body) if _interpolates(params, shape) else None
    return State(shape, _resizings(filled, shape), largest)


def _rows(params: Resample, inputs: Inputs, state: State, _tensor: str, start: int, stop: int) -> Array:
    shape = state.shape
    dtype = answer_dtype(params.dtype, inputs["x"])
    out = np.empty((stop - start, shape.table.shape[1]), DTYPES[dtype])
    kept = min(max(shape.prefix - start, 0), len(out))
    out[:kept] = block(shape.table, start, start + kept, dtype)
    first = start + kept - shape.prefix
    if state.largest is None:
        _write_copies(params, shape, first, out[kept:])
    else:
        most = prod(axis.most for axis in state.resizings)
        write_sums(shape.body, state.largest, _taps(state, first), most, out[kept:])
    return out


def _taps(state: State, first: int) -> Iterator[Taps]:
    """The taps of each row behind the prefix, from `first` on."""
    if len(state.resizings) == 1:
        return map(state.resizings[0].taps, count(first))
    return _grid_taps(state, first)


def _grid_taps(state: State, first: int) -> Iterator[Taps]:
    width, (rows, columns) = state.shape.new[1], state.resizings
    inner = lru_cache(maxsize=1024)(columns.taps)
    row, column = divmod(first, width)
    while True:
        outer = rows.taps(row)
        for place in range(column, width):
            yield crossed(outer, inner(place), columns.old)
        row, column = row + 1, 0


def _write_copies(params: Resample, shape: Shape, first: int, out: Array) -> None:
    """Old rows as they are, and zeros where there is none."""
    cells = np.arange(first, first + len(out), dtype=np.int64)
    old = np.zeros(len(out), np.int64)
    empty = np.zeros(len(out), np.bool_)
    inner = prod(shape.new)
    for had, wanted in zip(shape.old, shape.new, strict=True):
        inner //= wanted
        index = cells // inner % wanted
        beyond = index >= had
        index = index % had if params.method == "repeat" else np.minimum(index, had - 1)
        old = old * had + index
        empty |= beyond if (params.method, params.fill) == ("pad", "zeros") else False
    out[...] = block(shape.body[old], 0, len(old), out.dtype.name)
    out[empty] = 0


def _facts(params: Resample, inputs: Inputs) -> Facts:
    shape = _shape(params, inputs)
    return {"old_rows": len(shape.table), "new_rows": shape.prefix + prod(shape.new)}


def _notes(params: Resample, inputs: Inputs) -> list[str]:
    if params.method in ("repeat", "pad"):
        idle = ["sampling", "antialias", "bicubic_coefficient", "edges", "ratio"]
        idle += ["fill"] if params.method == "repeat" else []
        return unused(params, tuple(idle), f"method={params.method}")
    shape = _shape(params, inputs)
    same = ["the size is the same: the table is copied"] if shape.old == shape.new else []
    if same and params.ratio == "plus-tenth" and params.method == "bicubic" and params.antialias != "antialias":
        same = [f"{same[0]}, as DINO does; code that resizes it all the same (HY 4) shifts it by the tenth"]
    idle = ["fill"] if params.method == "bicubic" else ["bicubic_coefficient", "fill"]
    return same + unused(params, tuple(idle), f"method={params.method}")


def _state_bytes(params: Resample, inputs: Inputs) -> int:
    """The largest values of the columns, and the weights of a block while it is computed."""
    shape = _shape(params, inputs)
    if not _interpolates(params, shape):
        return 0
    most = prod(axis.most for axis in _resizings(_resolve(params, inputs), shape))
    channels: int = shape.table.shape[1]
    return 8 * channels + working_bytes(prod(shape.new), most)


DESCRIPTION = """\
New row i of m takes its numbers from the old rows near u = (i + 1/2) n/m - 1/2 (`half-pixel`) or i (n - 1)/(m - 1)
(`align-corners`), on a grid along both axes: old row j with the weight k(u - j),

- `linear`, `bilinear`: k(x) = 1 - |x| up to 1
- `bicubic`: k(x) = (a+2)|x|^3 - (a+3)|x|^2 + 1 up to 1, a|x|^3 - 5a|x|^2 + 8a|x| - 4a up to 2, a = -0.75

With `antialias` x is (u - j) m/n where rows become fewer, a is -0.5, and rows that there are not are left out, the
weights divided by their sum. Weights are exact fractions; every value is within 1 ulp of the real number. A table of
the same size is answered byte for byte; the `prefix` rows always are. `repeat` and `pad` keep the old rows.

A table (rows, channels) stands for a sequence (`length`) or for a grid, row after row (`grid`, and `old_grid` where it
is no square). It can also come as (height, width, channels).

**Channel order** stays. **Axes**: (position, channel), the prefix first; or (row, column, channel) if x has them. The
body is JSON, one `.npy`, or a safetensors file with `x`; the answer is `x` again."""

SCHEME: Scheme[Resample, State] = Scheme(
    family="learned",
    name="resample",
    title="Your own position table, resized",
    explanation=(
        "A trained table has as many rows as the training had positions. For a longer text or a larger image it is "
        "resized like a picture, and models are fine-tuned from there."
    ),
    description=DESCRIPTION,
    reference="Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981; Dosovitskiy et al., ViT, 2021",
    params=Resample,
    rounding="faithful",
    tensors=_tensors,
    prepare=_prepare,
    rows=_rows,
    resolve=_resolve,
    facts=_facts,
    notes=_notes,
    state_bytes=_state_bytes,
    inputs=(Input("x", "The table: (rows, channels) or (height, width, channels), leading axes of length 1 allowed."),),
    examples=(
        Example(
            "A grid of 2 x 2, row after row",
            {"grid": "2,3"},
            {"tensors": {"x": [[0, 1], [1, 2.5], [10, 11], [11, 12]]}},
        ),
        Example(
            "The same with axes of its own, antialiased",
            {"grid": "2,3", "antialias": "antialias"},
            {"tensors": {"x": [[[0, 1], [1, 2.5]], [[10, 11], [11, 12]]]}},
        ),
        Example(
            "A class token before a grid of 4 x 2",
            {"grid": "2,3", "old_grid": "4,2", "prefix": "1"},
            {"tensors": {"x": [[9.5], [0], [1], [10], [11], [20], [21], [30], [31]]}},
        ),
    ),
    used_by=(
        Usage(
            "transformers: ViT, CLIP, BLIP, BLIP-2, MSN, BEiT, Data2VecVision, Flava, InternVL, DINOv2, MAE's "
            "encoder; SegGPT, which drops the class token's row; Pixio, with prefix=n_cls_tokens",
            {"method": "bicubic", "prefix": "1"},
            preset="vit",
        ),
        Usage("transformers: MAE's decoder, with length=", {"method": "bicubic", "prefix": "1"}, preset="mae-decoder"),
        Usage("transformers: DeiT", {"method": "bicubic", "prefix": "2"}, preset="deit"),
        Usage(
            "transformers: SigLIP, Swin, I-JEPA, GroupViT, Hiera, Perceiver, Kimi-K2.5 (each frame)",
            {"method": "bicubic"},
            preset="siglip",
        ),
        Usage(
            "timm; DINOv2 with registers, RF-DETR, Unlimited-OCR (CLIP's encoder)",
            {"method": "bicubic", "prefix": "1", "antialias": "antialias"},
            preset="timm",
        ),
        Usage(
            "timm resample_abs_pos_embed_nhwc; DeepSeek-OCR2 and Unlimited-OCR (SAM's encoder)",
            {"method": "bicubic", "antialias": "antialias"},
            preset="timm-nhwc",
        ),
        Usage(
            "DINO's and DINOv2's own repositories",
            {"method": "bicubic", "prefix": "1", "ratio": "plus-tenth"},
            preset="dino",
        ),
        Usage("transformers: DPT", {"method": "bilinear", "prefix": "1"}, preset="dpt"),
        Usage("Qwen3-VL", {"method": "bilinear", "sampling": "align-corners"}, preset="qwen3-vl"),
        Usage("transformers: Step-3.7", {"method": "bilinear"}, preset="step3p7"),
        Usage(
            "SigLIP 2 NaFlex; VideoPrism (space); Cosmos 3 Edge, whose rows then go by merge blocks",
            {"method": "bilinear", "antialias": "antialias"},
            preset="siglip2",
        ),
        Usage(
            "VideoPrism (time), with length=",
            {"method": "linear", "antialias": "antialias"},
        ),
        Usage("TIPSv2", {"method": "bilinear", "prefix": "1", "antialias": "antialias"}, preset="tipsv2"),
        Usage(
            "HunYuan-VL (interpolate_mode bilinear), which drops row 0",
            {"method": "bilinear", "prefix": "1"},
            preset="hunyuan-vl",
        ),
        Usage(
            "HunYuan v4 VL (interpolate_mode bilinear), which drops row 0",
            {"method": "bilinear", "prefix": "1", "ratio": "plus-tenth"},
            preset="hy-v4-vl",
        ),
        Usage("Longformer made of RoBERTa", {"method": "repeat", "prefix": "2"}, preset="longformer"),
    ),
    properties={"learned parameters": "the table that you send", "extrapolates": "resized tables want fine-tuning"},
)
