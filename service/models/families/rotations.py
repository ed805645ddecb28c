"""Rotations that no RoPE block describes: by width of a projection, by axes of a clip, by seconds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from service.engine.errors import Refusal
from service.engine.numbers.single import float32_frequencies
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.uses import code
from service.models.plan import Address, Use, Value
from service.models.reading import Reading
from service.models.rope_blocks import rope_blocks
from service.models.rope_parameters import LEAST_BASE, MOST_BASE
from service.models.sizes import grid

LEAST_CLVP_WIDTH = 32


def clvp(reading: Reading, context: Context) -> Iterator[Use]:
    """CLVP's encoders: queries, keys and values turn, by a width that follows from the projection."""
    if not reading.flag("use_rotary_embedding"):
        why = "use_rotary_embedding is false: nothing tells tokens apart"
        yield Use(role=context.role, scope=reading.where, model_type=reading.type.name, encoding="none", notes=(why,))
        return
    head = _head(reading, "hidden_size", "num_attention_heads")
    projected, heads = reading.needed("projection_dim"), reading.needed("num_attention_heads")
    turned = projected.replaced(max(projected.value // (2 * heads.value), LEAST_CLVP_WIDTH))
    parameters = {
        "dim": head,
        "rotary_dim": turned,
        "pairing": code(reading, "half"),
        "arithmetic": code(reading, "float32"),
        "table_dtype": code(reading, "float32"),
    }
    plain = {name: value for name, value in parameters.items() if name != "table_dtype"}
    tables = ask("encodings", "rope", plain, length=context.length)
    unplaced = {name: value for name, value in plain.items() if name != "pairing"}
    rotation = {name: value for name, value in parameters.items() if name != "dim"}
    yield Use(
        role=context.role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="rope",
        scheme=("encodings", "rope"),
        parameters=parameters,
        facts=tables.facts(),
        notes=("values turn too, as queries and keys do",),
        addresses={
            "tables": tables.address(),
            "frequencies": ask("encodings", "rope", unplaced, output="frequencies").address(),
            "rotation": ask("apply", "rope", rotation).address(),
        },
    )


def vjepa2(reading: Reading, _context: Context) -> Iterator[Use]:
    """V-JEPA 2, its encoder and its predictor: tables for halves of each axis, by which neighbours turn."""
    key, (rows, columns) = grid(reading, "crop_size", "patch_size")
    frames, depth = reading.needed("frames_per_clip"), reading.needed("tubelet_size")
    if frames.value < depth.value:
        detail = f"frames_per_clip is {frames.value} and tubelet_size {depth.value}: the clip has no tubelet"
        raise Refusal(frames.key, "conflict", detail)
    clip = Value([frames.value // depth.value, rows, columns], "rewritten", key)
    widths = ("hidden_size", "num_attention_heads"), ("pred_hidden_size", "pred_num_attention_heads")
    for part, (width, heads) in zip(("encoder", "predictor"), widths, strict=True):
        head = _head(reading, width, heads)
        pairs = head.value // 3 // 2
        if not pairs:
            raise Refusal(head.key, "conflict", f"heads are {head.value} wide: three axes need at least 6 channels")
        shared = {
            "rotary_dim": head.replaced(6 * pairs),
            "sections": head.replaced([pairs] * 3),
            "frequencies": code(reading, "per-axis"),
            "pairing": code(reading, "half-per-axis"),
            "arithmetic": code(reading, "table-dtype"),
        }
        notes = ["neighbours see two frequencies: the vectors do not keep their lengths, and the class has it so"]
        if part == "predictor":
            notes.append("the predictor sees chosen patches: POST their frames, rows and columns as positions")
        yield _by_axes(reading, {"dim": head, **shared}, clip, {"part": part}, notes, turning="neighbours")


def _by_axes(
    reading: Reading,
    parameters: Mapping[str, Value],
    example: Value,
    facts: Mapping[str, Any],
    notes: list[str],
    **of_rotation: str,
) -> Use:
    """A use of rope-axes: tables of an example grid, frequencies, the rotation."""
    rotation = {name: value for name, value in parameters.items() if name != "dim"}
    pairs = parameters["sections"].value
    return Use(
        role="vision-tower",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="rope-axes",
        scheme=("encodings", "rope-axes"),
        parameters=parameters,
        facts={"axes": len(pairs), "pairs_per_axis": pairs[0], "attention_factor": 1.0, **facts},
        notes=tuple(notes),
        addresses={
            "tables": ask("encodings", "rope-axes", {**parameters, "grid": example}).address(),
            "frequencies": ask("encodings", "rope-axes", parameters, output="frequencies").address(),
            "rotation": ask("apply", "rope-axes", {**rotation, "grid": example}, **of_rotation).address(),
        },
    )


SECONDS = (
    "positions are real: of frame i of a window of n frames at t seconds, the window's first frame at t0, they are "
    "-2 pi t round(t0 / (4 n audio_frame_step)) / base and -4 pi^2 t i / base"
)


def musicflamingo(reading: Reading, _context: Context) -> Iterator[Use]:
    """Music Flamingo: frames of an encoder's output turn by window and frame, both times seconds."""
    audio = reading.object("audio_config") or {}
    inner = Reading(audio, reading.at("audio_config"), reading.type)
    width = inner.integer("hidden_size") or code(reading, 1280)
    block = rope_blocks(reading, []).blocks[None]
    assert block is not None  # the class has no null base
    if block.rope_type != "default":
        place = block.keys["rope_type"].key
        raise Refusal(place, "unsupported", f"frames turn unscaled here, and rope_type is {block.rope_type}")
    share = block.keys["partial_rotary_factor"]
    turned = share.replaced(int(width.value * float(share.value)))
    parameters = {
        "dim": width,
        "rotary_dim": turned.replaced(2 * turned.value),
        "sections": turned.replaced([turned.value // 2] * 2),
        "base": block.keys["rope_theta"],
        "frequencies": code(reading, "per-axis"),
        "pairing": code(reading, "interleaved"),
        "arithmetic": code(reading, "float32"),
    }
    use = _by_axes(reading, parameters, code(reading, [1, 1]), {"axis_names": ["window", "frame"]}, [SECONDS])
    addresses = {name: _with_positions(each) for name, each in use.addresses.items() if name != "frequencies"}
    yield Use(
        role="audio-tower",
        scope=use.scope,
        model_type=use.model_type,
        encoding=use.encoding,
        scheme=use.scheme,
        parameters=parameters,
        facts=use.facts,
        notes=use.notes,
        addresses={**addresses, "frequencies": use.addresses["frequencies"]},
    )


def _with_positions(address: Address) -> Address:
    """The same, for positions of the caller's own."""
    return Address(address.href.replace("grid=1,1&", ""), "POST")


def _head(reading: Reading, width_key: str, heads_key: str) -> Value:
    width, heads = reading.needed(width_key), reading.needed(heads_key)
    if width.value % heads.value:
        detail = f"{width_key} is {width.value} and {heads_key} {heads.value}: the heads have no whole width"
        raise Refusal(heads.key, "conflict", detail)
    return width.replaced(width.value // heads.value)


def esm_atoms(reading: Reading, context: Context) -> Iterator[Use]:
    """ESMFold 2's atoms: x, y and z in space have some pairs each, the number of the residue the next, others none."""
    head = _head_or(reading)
    axis, uid = (reading.needed(key, 0) for key in ("num_spatial_rope_pairs_per_axis", "num_uid_rope_pairs"))
    left = head.value // 2 - 3 * axis.value - uid.value
    if head.value % 2 or left < 0 or not axis.value or not uid.value:
        detail = f"heads are {head.value} wide: three axes of {axis.value} pairs and {uid.value} more do not fit"
        raise Refusal(axis.key, "conflict", detail)
    bases = (reading.number("spatial_rope_base_frequency"), reading.number("uid_rope_base_frequency"))
    spatial, residues = (
        [float(each) for each in float32_frequencies(_base(base, 20.0 if first else 1e4), 2 * count, count)]
        for base, count, first in ((bases[0], axis.value, True), (bases[1], uid.value, False))
    )
    parameters = {
        "dim": head,
        "sections": axis.replaced([axis.value] * 3 + [uid.value + left]),
        "rope_type": code(reading, "frequencies"),
        "raw_frequencies": axis.replaced([*spatial * 3, *residues, *[0.0] * left]),
        "pairing": code(reading, "half"),
        "arithmetic": code(reading, "float32"),
    }
    example = {"positions": [[0.0, 0.0, 0.0, 0.0], [1.5, -0.5, 0.25, 1.0]]}
    tables = replace(ask("encodings", "rope-axes", parameters, grid="1,1,1,1").address(), method="POST", body=example)
    unplaced = {name: value for name, value in parameters.items() if name not in ("dim", "pairing")}
    yield Use(
        role=context.role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="rope-axes",
        scheme=("encodings", "rope-axes"),
        parameters=parameters,
        facts={"axes": 4, "head_dim": head.value, "attention_factor": 1.0},
        notes=("positions of an atom are x, y, z and the number of its residue, which are the file's own body",),
        addresses={
            "tables": replace(tables, href=tables.href.replace("&grid=1,1,1,1", "")),
            "frequencies": ask("encodings", "rope-axes", {"dim": head, **unplaced}, output="frequencies").address(),
        },
    )


def _head_or(reading: Reading) -> Value:
    given = reading.integer("head_dim")
    return _head(reading, "hidden_size", "num_attention_heads") if given is None else given


def _base(given: Value | None, default: float) -> float:
    base = default if given is None else float(given.value)
    if given is not None and not LEAST_BASE <= base <= MOST_BASE:
        detail = f"the base is {given.value}; it must be at least {LEAST_BASE} and at most {MOST_BASE}"
        raise Refusal(given.key, "out_of_range", detail, limit=LEAST_BASE if base < LEAST_BASE else MOST_BASE)
    return base
