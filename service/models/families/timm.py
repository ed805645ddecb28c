"""Towers of another library, timm: what the name of an architecture says, and no more."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Perception:
    """What a name and `model_args` say of a Perception Encoder."""

    named: Value
    width: Value
    heads: Value
    sides: tuple[Value, Value]
    patch: tuple[Value, Value]
    trained: tuple[Value, Value]
    token: bool
    first: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.sides[0].value // self.patch[0].value, self.sides[1].value // self.patch[1].value

    @property
    def reference(self) -> tuple[int, int]:
        """Rows and columns that the weights were trained for."""
        return self.trained[0].value, self.trained[1].value


def _perception(reading: Reading, named: Value, match: re.Match[str]) -> Iterator[Use]:
    """A trained table, and RoPE by column and row on the grid that the weights were trained for."""
    found = _said(reading, named, match)
    rows, columns = found.grid
    said_of_it = ["timm resizes it for other pictures: bicubic, antialiased"]
    yield learned(reading, "vision-tower", [rows * columns + found.token, found.width.value], said_of_it, named.key)
    yield _turning(reading, found)


def _said(reading: Reading, named: Value, match: re.Match[str]) -> Perception:
    """`model_args` of the file change what the name says, as timm's own arguments do."""
    args: Mapping[str, Any] = reading.object("model_args") or {}
    kind_of, patch, side = match[1], int(match[2]), int(match[3])

    def said(key: str, default: int) -> tuple[Value, Value]:
        return _sides(reading, args, key, Value(default, "rewritten", named.key))

    width, heads = (said(key, WIDTHS[kind_of][place])[0] for place, key in enumerate(("embed_dim", "num_heads")))
    token = args.get("class_token", kind_of != "gigantic")
    if not isinstance(token, bool):
        where = pointer(reading.at("model_args"), "class_token")
        raise Refusal(where, "type", f"class_token is {kind(token)}; true or false is needed")
    patches, sides, trained = said("patch_size", patch), said("img_size", side), said("ref_feat_shape", side // patch)
    first = 0 if kind_of == "gigantic" else 1
    found = Perception(named, width, heads, sides, patches, trained, token, first)
    rows, columns = found.grid
    if not rows or not columns or width.value % (4 * heads.value):
        detail = f"{named.value} makes {rows} x {columns} patches, and heads of {width.value} / {heads.value}"
        raise Refusal(named.key, "conflict", detail)
    return found


def _turning(reading: Reading, found: Perception) -> Use:
    dim, as_trained = found.width.replaced(found.width.value // found.heads.value), found.grid == found.reference
    parameters = {
        "dim": dim,
        "sections": dim.replaced([dim.value // 4] * 2),
        "base": code(reading, 10000.0),
        "frequencies": code(reading, "per-axis"),
        "section_order": code(reading, [1, 0]),
        "pairing": code(reading, "interleaved"),
        "arithmetic": code(reading, "float32" if as_trained else "exact"),
    }
    scaled = {} if as_trained else {"base_size": found.trained[0].replaced(list(found.reference))}
    of_tables = scaled | {
        "offset": code(reading, found.first),
        "class_token": code(reading, "first" if found.token else "none"),
        "grid": found.sides[0].replaced(list(found.grid)),
    }
    rotation = {key: value for key, value in parameters.items() if key != "dim"}
    base_size = ",".join(map(str, found.reference))
    return Use(
        role="vision-tower",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="rope-axes",
        scheme=("encodings", "rope-axes"),
        parameters={**parameters, **of_tables},
        facts={"axes": 2, "head_dim": dim.value, "pairs_per_axis": dim.value // 4, "attention_factor": 1.0},
        notes=(f"read from the name of timm's architecture; base_size of other grids is {base_size}",),
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
