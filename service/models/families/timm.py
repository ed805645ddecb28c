"""Towers of another library, timm: what the name of an architecture says, and no more."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.uses import code, learned
from service.models.nearest import echo
from service.models.plan import Use, Value
from service.models.reading import Reading, kind, pointer, whole

# Families of timm whose networks are convolutions; fastvit's last stage has a trained one for positions.
CONVOLUTIONS = (
    "bit",
    "convnext",
    "cspnet",
    "darknet",
    "densenet",
    "dla",
    "dpn",
    "efficientnet",
    "hrnet",
    "inception",
    "mobilenet",
    "nfnet",
    "regnet",
    "repvgg",
    "repvit",
    "resnest",
    "resnet",
    "resnext",
    "seresnet",
    "tf_efficientnet",
    "tf_mobilenet",
    "vgg",
    "wide_resnet",
    "xception",
)


# Perception Encoder: width and heads by size; the largest has no class token, and counts patches from 0.
PERCEPTION = re.compile(
    r"vit_pe_(?:core|lang|spatial)_(tiny|small|base|large|gigantic)_patch(\d{1,3})_(\d{1,4})(?:\..*)?"
)
WIDTHS: Mapping[str, tuple[int, int]] = {
    "tiny": (192, 3),
    "small": (384, 6),
    "base": (768, 12),
    "large": (1024, 16),
    "gigantic": (1536, 16),
}


def timm(reading: Reading, context: Context) -> Iterator[Use]:
    """The positions of an architecture that is known by its name."""
    named = reading.find("architecture") or reading.find("backbone")
    name = named.value if named is not None and isinstance(named.value, str) else ""
    match = PERCEPTION.fullmatch(name)
    if match is not None and named is not None:
        yield from _perception(reading, named, match)
        return
    if name.startswith(CONVOLUTIONS):
        encoding, note = "none", f"{echo(name)} of timm: convolutions, no positional encoding"
    elif name.startswith("fastvit"):
        encoding, note = "convolution", f"{echo(name)} of timm: a trained convolution in the last stage, no table"
    else:
        encoding = "unknown"
        note = f"{echo(name) or 'a class'} of another library, timm: its positions are not in this file"
    yield Use(
        role=context.role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding=encoding,
        notes=(note,),
    )


def _perception(reading: Reading, named: Value, match: re.Match[str]) -> Iterator[Use]:
    """A trained table, and RoPE by column and row on the grid that the weights were trained for.

    `model_args` of the file change what the name says, as timm's own arguments do.
    """
    args: Mapping[str, Any] = reading.object("model_args") or {}

    def said(key: str, default: int) -> tuple[Value, Value]:
        return _sides(reading, args, key, Value(default, "rewritten", named.key))

    width, heads = (said(key, WIDTHS[match[1]][place])[0] for place, key in enumerate(("embed_dim", "num_heads")))
    high, wide = said("patch_size", int(match[2]))
    sides = said("img_size", int(match[3]))
    rows, columns = sides[0].value // high.value, sides[1].value // wide.value
    if not rows or not columns or width.value % (4 * heads.value):
        detail = f"{named.value} makes {rows} x {columns} patches, and heads of {width.value} / {heads.value}"
        raise Refusal(named.key, "conflict", detail)
    trained = said("ref_feat_shape", int(match[3]) // int(match[2]))
    reference = trained[0].value, trained[1].value
    token = args.get("class_token", match[1] != "gigantic")
    if not isinstance(token, bool):
        where = pointer(reading.at("model_args"), "class_token")
        raise Refusal(where, "type", f"class_token is {kind(token)}; true or false is needed")
    said_of_it = ["timm resizes it for other pictures: bicubic, antialiased"]
    yield learned(reading, "vision-tower", [rows * columns + token, width.value], said_of_it, named.key)
    dim = width.replaced(width.value // heads.value)
    parameters = {
        "dim": dim,
        "sections": dim.replaced([dim.value // 4] * 2),
        "base": code(reading, 10000.0),
        "frequencies": code(reading, "per-axis"),
        "section_order": code(reading, [1, 0]),
        "pairing": code(reading, "interleaved"),
        "arithmetic": code(reading, "float32" if (rows, columns) == reference else "exact"),
    }
    scaled = {} if (rows, columns) == reference else {"base_size": trained[0].replaced(list(reference))}
    of_tables = scaled | {
        "offset": code(reading, 0 if match[1] == "gigantic" else 1),
        "class_token": code(reading, "first" if token else "none"),
        "grid": sides[0].replaced([rows, columns]),
    }
    rotation = {key: value for key, value in parameters.items() if key != "dim"}
    yield Use(
        role="vision-tower",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="rope-axes",
        scheme=("encodings", "rope-axes"),
        parameters={**parameters, **of_tables},
        facts={"axes": 2, "head_dim": dim.value, "pairs_per_axis": dim.value // 4, "attention_factor": 1.0},
        notes=(
            f"read from the name of timm's architecture; base_size of other grids is {reference[0]},{reference[1]}",
        ),
        addresses={
            "tables": ask("encodings", "rope-axes", {**parameters, **of_tables}).address(),
            "frequencies": ask("encodings", "rope-axes", parameters, output="frequencies").address(),
            "rotation": ask("apply", "rope-axes", {**rotation, **of_tables}).address(),
        },
    )


def _sides(reading: Reading, args: Mapping[str, Any], key: str, default: Value) -> tuple[Value, Value]:
    """A number of `model_args`, or two for height and width; what the name says where there is none."""
    given = args.get(key)
    if given is None:
        value = whole(default, 1, 65_536)
        return value, value
    where = pointer(reading.at("model_args"), key)
    listed = given if isinstance(given, list) else [given, given]
    if len(listed) != 2:
        raise Refusal(where, "type", f"{key} is {kind(given)} of {len(listed)}; one number or two are needed")
    first, second = (whole(Value(each, "config", where), 1, 65_536) for each in listed)
    return first, second
