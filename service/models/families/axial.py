"""Vision towers that turn by row and column: which axis drives which pair, and where patches are counted from.

What differs between towers is a row of `AXIAL`; the frequencies are b^(-2 k / (head width / 2)) along each axis unless
the row says otherwise.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.layer_rules import numbers_of
from service.models.plan import Use, Value
from service.models.reading import MOST_LAYERS, Reading, real
from service.models.rope_blocks import rope_blocks
from service.models.rope_checks import null_base
from service.models.sizes import grid, size

PER_AXIS = {"frequencies": "per-axis"}
COLUMN_FIRST = {"frequencies": "per-axis", "section_order": [1, 0]}
SAM = {**COLUMN_FIRST, "pairing": "interleaved"}
CENTRES = {
    **PER_AXIS,
    "coordinates": "unit-centres",
    "angle_factor": "two-pi",
    "arithmetic": "exact",
    "note": "class and register tokens before the patches do not turn: the rotation is for the patches alone",
}

# parameters of encodings/rope-axes by model type; "merge" names the key of the side of the blocks patches come in.
AXIAL: Mapping[str, Mapping[str, Any]] = {
    "edgetam_video": {**SAM, "memory": True},
    "efficientloftr": {**PER_AXIS, "section_rule": "alternating", "pairing": "interleaved", "offset": 1, "whole": True},
    "eomt_dinov3": CENTRES,
    "dinov3_vit": CENTRES,
    "gemma4_vision": {**COLUMN_FIRST, "pairing": "half-per-axis"},
    "inkling2_vision": {**COLUMN_FIRST, "pairing": "interleaved", "offset": 1},
    "kimi_k25_vision": {**COLUMN_FIRST, "section_rule": "alternating"},
    "llama4_vision_model": {**COLUMN_FIRST, "pairing": "interleaved", "offset": 1, "class_token": "last"},
    "minimax_m3_vl_vision": {**PER_AXIS, "thirds": True},
    "mlcd": {**PER_AXIS, "note": "the class token before the patches turns by trained angles"},
    "mlcd_vision_model": {**PER_AXIS, "note": "the class token before the patches turns by trained angles"},
    "muse_glimmer_vision": {**COLUMN_FIRST, "offset": 1},
    "muse_spark_vision": {**COLUMN_FIRST, "offset": 1},
    "paddleocr_vl_vision": {**PER_AXIS, "merge": None},
    "pixtral": {"frequencies": "strided"},
    "sam2_video": {**SAM, "memory": True},
    "sam3_tracker_video": {**SAM, "memory": True},
    "sam3_vit_model": {**SAM, "merge": None, "note": "positions are scaled to window_size along each axis"},
    "sapiens2": CENTRES,
    "step3p5_vision": COLUMN_FIRST,
}
OURS = ("merge", "note", "thirds", "memory", "whole")


def axial(reading: Reading, context: Context) -> list[Use]:
    """The one use of a tower: tables of a grid, frequencies and the rotation."""
    row = AXIAL.get(reading.type.name, PER_AXIS)
    dim = _width(reading, row)
    sections = _sections(dim, row)
    parameters = _parameters(reading, row, dim, sections)
    merge = parameters.get("spatial_merge_size")
    example = _example(reading, merge.value if merge else 1, row)
    of_tables = ("coordinates", "spatial_merge_size", "class_token", "offset")
    shared = {name: value for name, value in parameters.items() if name not in of_tables}
    rotation = {name: value for name, value in parameters.items() if name != "dim"}
    tables = ask("encodings", "rope-axes", {**parameters, "grid": example})
    notes = [
        *_ignored(reading),
        f"tables are those of a picture of {example.value[-2]} rows and {example.value[-1]} columns; others by grid=",
    ]
    return _by_windows(
        reading,
        Use(
            role=context.role if context.role == "audio-tower" else "vision-tower",
            scope=reading.where,
            model_type=reading.type.name,
            encoding="rope-axes",
            scheme=("encodings", "rope-axes"),
            parameters=parameters,
            facts={
                "axes": len(sections.value),
                "head_dim": dim.value,
                "pairs_per_axis": sections.value[0],
                "attention_factor": 1.0,
                "class_token": row.get("class_token", "none"),
            },
            notes=(*notes, *([row["note"]] if "note" in row else [])),
            addresses={
                "tables": tables.address(),
                "frequencies": ask("encodings", "rope-axes", shared, output="frequencies").address(),
                "rotation": ask("apply", "rope-axes", {**rotation, "grid": example}).address(),
            },
        ),
    )


def _parameters(reading: Reading, row: Mapping[str, Any], dim: Value, sections: Value) -> dict[str, Value]:
    """Those of the tables, but for their grid."""
    where = reading.where or "/"
    parameters = {"dim": dim, "sections": sections, "base": real(_base(reading))}
    if row.get("thirds"):
        parameters["rotary_dim"] = dim.replaced(2 * sum(sections.value))
    parameters |= {name: Value(value, "class default", where) for name, value in row.items() if name not in OURS}
    merge = reading.integer("spatial_merge_size") if row.get("merge", "spatial_merge_size") else None
    if merge is not None:
        parameters["spatial_merge_size"] = merge
    parameters.setdefault("arithmetic", Value("float32", "class default", where))
    return parameters


def _by_windows(reading: Reading, use: Use) -> list[Use]:
    """The use again for layers that see a window of patches only, where the class has such (Qwen 2.5 VL)."""
    listed = reading.list_of("fullatt_block_indexes")
    if listed is None:
        return [use]
    depth, merge, patch = (reading.needed(key, 1, MOST_LAYERS) for key in ("depth", "spatial_merge_size", "patch_size"))
    side = reading.needed("window_size").value // merge.value // patch.value * merge.value
    whole = set(numbers_of(listed))
    found = []
    for label, seen in (("window_attention", False), ("full_attention", True)):
        layers = tuple(layer for layer in range(depth.value) if (layer in whole) is seen)
        notes = () if seen else (f"patches see those of their window alone: {side} rows and columns of a frame",)
        facts = {} if seen else {"window": [side, side]}
        if layers:
            own = {**use.facts, **facts}
            found.append(replace(use, layer_type=label, layers=layers, facts=own, notes=(*use.notes, *notes)))
    return found


def _width(reading: Reading, row: Mapping[str, Any]) -> Value:
    """The width that turns: a head's, by the class's own keys."""
    if row.get("memory"):
        width = reading.needed("memory_attention_hidden_size")
        shares = reading.needed("memory_attention_downsample_rate").value
        shares *= reading.needed("memory_attention_num_attention_heads").value
        return _divided(width, shares, "memory_attention_num_attention_heads")
    if row.get("whole"):
        return _whole_width(reading)
    given = reading.integer("head_dim", 0)
    if given is not None and given.value and reading.type.name not in ("dinov3_vit", "sapiens2", "eomt_dinov3"):
        return given
    key = "embed_dim" if reading.type.name == "qwen2_vl_vision" else "hidden_size"
    return _divided(reading.needed(key), reading.needed("num_attention_heads").value, "num_attention_heads")


def _whole_width(reading: Reading) -> Value:
    """The whole state, before heads are split: twice int(head width * partial_rotary_factor), 4 unless said."""
    width = _divided(reading.needed("hidden_size"), reading.needed("num_attention_heads").value, "num_attention_heads")
    block = rope_blocks(reading, []).blocks[None]
    share = block.keys.get("partial_rotary_factor") if block else None
    return width.replaced(2 * int(width.value * (share.value if share else 4.0)))


def _divided(width: Value, parts: int, name: str) -> Value:
    if width.value < parts:
        detail = f"{width.key.rpartition('/')[2]} is {width.value} and {name} {parts}: the heads have no width"
        raise Refusal(width.key, "conflict", detail)
    return width.replaced(width.value // parts)


def _sections(dim: Value, row: Mapping[str, Any]) -> Value:
    if row.get("thirds"):
        return dim.replaced([dim.value // 3 // 2] * 3)
    if dim.value % 4:
        raise Refusal(dim.key, "conflict", f"heads are {dim.value} wide: two axes need a multiple of 4")
    return dim.replaced([dim.value // 4] * 2)


def _base(reading: Reading) -> Value:
    """rope_theta; towers know no scaling."""
    if reading.type.name in ("dinov3_vit", "sapiens2"):
        for key in ("rope_parameters", "rope_scaling"):
            given = reading.object(key) or {}
            named = given.get("rope_type", given.get("type", "default"))
            # transformers checks the block, though nothing reads it.
            if named in ("yarn", "llama3") or (named == "proportional" and "rope_theta" not in given):
                detail = f"{reading.type.name} turns unscaled only, by the top level's rope_theta"
                raise Refusal(reading.at(key), "unsupported", detail)
        found = reading.number("rope_theta")
        return found if found is not None else Value(100.0, "class default", reading.at("rope_theta"))
    block = rope_blocks(reading, []).blocks[None]
    assert block is not None  # no tower's class takes rope_theta null for "no rotation"
    if block.rope_type not in ("axial", "default"):
        place = block.keys["rope_type"].key
        raise Refusal(place, "unsupported", f"{reading.type.name} turns unscaled only: rope_type {block.rope_type}")
    return block.keys["rope_theta"]


def _ignored(reading: Reading) -> list[str]:
    """What has no effect: DINOv3 reads its base at the top level, and no block."""
    if reading.type.name not in ("dinov3_vit", "sapiens2"):
        return rope_blocks(reading, []).notes
    given = [key for key in ("rope_parameters", "rope_scaling") if reading.has(key)]
    said = [f"{key} is read by nothing in this class: its base is the top level's rope_theta" for key in given]
    return [*said, *null_base(reading, {})]


def _example(reading: Reading, merge: int, row: Mapping[str, Any]) -> Value:
    """The patches of the picture that the configuration names, else of a small one that fits the blocks."""
    if row.get("memory"):
        sizes = reading.find("memory_attention_rope_feat_sizes")
        given = sizes.value if sizes is not None and isinstance(sizes.value, list) else []
        if sizes is None or [type(each) for each in given] != [int, int] or min(given) < 1:
            where = reading.at("memory_attention_rope_feat_sizes")
            raise Refusal(where, "type", "two sizes are needed, rows and columns, such as [64, 64]")
        return Value(given, sizes.source, sizes.key)
    found = reading.find("image_size"), reading.find("patch_size")
    if all(each is not None and each.value is not None for each in found):
        key, (rows, columns) = grid(reading, "image_size", "patch_size")
        if not (rows % merge or columns % merge) and rows * columns <= 4096:
            frames = [1] if row.get("thirds") else []
            return Value([*frames, rows, columns], "rewritten", key)
    frames = [1] if row.get("thirds") else []
    return size(reading, [*frames, 2 * merge, 3 * merge])
