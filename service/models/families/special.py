"""Models whose rows no table can state: sizes that change from stage to stage, keys that hold lists or objects."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.windows import beit, levit, swin, swin_v2
from service.models.plan import Address, Use, Value
from service.models.reading import Reading, kind, whole
from service.models.sizes import grid, numbers, size

Special = Callable[[Reading, Context], Iterator[Use]]


def code(reading: Reading, value: Any) -> Value:
    """What the model's code holds, whatever the configuration says."""
    return Value(value, "class default", reading.where or "/")


def _use(
    reading: Reading,
    scheme: str,
    role: str,
    parameters: Mapping[str, Value],
    facts: Mapping[str, Any],
    notes: Sequence[str] = (),
    encoding: str = "",
    **more: str,
) -> Use:
    """A use whose tables are the scheme's own answer."""
    family, name = scheme.split("/")
    return Use(
        role=role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding=encoding or name,
        scheme=(family, name),
        parameters=parameters,
        facts=facts,
        notes=tuple(notes),
        addresses={"tables": ask(family, name, parameters, **more).address()},
    )


def learned(reading: Reading, role: str, table: Sequence[int], notes: Sequence[str], key: str) -> Use:
    """A trained table that is added as it is."""
    rows, dim = math.prod(table[:-1]), table[-1]
    rule = {"offset_rule": code(reading, "none")}
    return Use(
        role=role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="learned",
        scheme=("learned", "lookup"),
        parameters={"rows": Value(rows, "rewritten", key), "dim": Value(dim, "rewritten", key), **rule},
        facts={"table": list(table), "first_row": 0},
        notes=tuple(notes),
        addresses={"lookup": ask("learned", "lookup", rule, length=str(rows)).address()},
    )


def patchtst(reading: Reading, _context: Context) -> Iterator[Use]:
    """PatchTST and PatchTSMixer: a sinusoid with its mean taken off, divided by ten deviations; or a trained table."""
    dim, patches = reading.needed("d_model"), _patches(reading)
    used = reading.find("use_positional_encoding")
    if used is not None and used.value is False:
        yield _none(reading, "use_positional_encoding is false: nothing is added")
    elif (reading.text("positional_encoding_type") or code(reading, "sincos")).value == "random":
        yield learned(reading, "token-embeddings", [patches.value, dim.value], (), patches.key)
    else:
        rules = {"standardisation": "tenth", "odd_width": "refuse", "layout": "interleaved"}
        parameters = {"dim": dim, "length": patches} | {name: code(reading, value) for name, value in rules.items()}
        facts = {"table": [patches.value, dim.value], "rows": patches.value, "width": dim.value, "first_row": 0}
        yield _use(reading, "encodings/sinusoidal", "token-embeddings", parameters, facts)


def _patches(reading: Reading) -> Value:
    length, patch, stride = (reading.needed(key) for key in ("context_length", "patch_length", "patch_stride"))
    if length.value <= patch.value:
        detail = f"context_length is {length.value}: it must be above patch_length {patch.value}"
        raise Refusal(length.key, "conflict", detail)
    count = (length.value - patch.value) // stride.value + 1
    return length.replaced(count + (1 if reading.flag("use_cls_token") else 0))


def _none(reading: Reading, why: str, role: str = "token-embeddings") -> Use:
    return Use(role=role, scope=reading.where, model_type=reading.type.name, encoding="none", notes=(why,))


def videomae(reading: Reading, _context: Context) -> Iterator[Use]:
    """A fixed sinusoid over all patches of all frames, counted on."""
    key, (rows, columns) = grid(reading, "image_size", "patch_size")
    frames, tubelet = reading.needed("num_frames"), reading.needed("tubelet_size")
    count = Value(rows * columns * (frames.value // tubelet.value), "rewritten", key)
    dim = reading.needed("hidden_size")
    parameters = {"dim": dim, "length": count, "layout": code(reading, "interleaved")}
    facts = {"table": [count.value, dim.value], "rows": count.value, "width": dim.value, "first_row": 0}
    yield _use(reading, "encodings/sinusoidal", "vision-tower", parameters, facts)


def vit_mae(reading: Reading, _context: Context) -> Iterator[Use]:
    """The fixed tables of the encoder and of the decoder."""
    key, patches = grid(reading, "image_size", "patch_size")
    side = math.isqrt(math.prod(patches))
    for part, name in (("encoder", "hidden_size"), ("decoder", "decoder_hidden_size")):
        dim = reading.needed(name)
        parameters = {
            "dim": dim,
            "grid": Value([side, side], "rewritten", key),
            "axis_order": code(reading, "w-first"),
            "class_tokens": code(reading, 1),
        }
        facts = {"table": [side * side + 1, dim.value], "part": part}
        yield _use(reading, "encodings/sinusoidal-2d", "vision-tower", parameters, facts)


def mpt(reading: Reading, context: Context) -> Iterator[Use]:
    """ALiBi where the attention block says so, else a model without positions: `learned_pos_emb` is read by nothing."""
    block = reading.object("attn_config") or {}
    if block.get("alibi", True) is False:
        yield _none(reading, "attn_config.alibi is false, and learned_pos_emb is read by nothing", "text-attention")
        return
    heads = reading.needed("num_attention_heads")
    said = {"form": "last-key", "arithmetic": "float32-reciprocals"}
    parameters = {"heads": heads} | {name: code(reading, value) for name, value in said.items()}
    notes = []
    if reading.document.get("learned_pos_emb"):
        notes.append("learned_pos_emb is read by nothing")
    if block.get("alibi_bias_max", 8) != 8:
        notes.append("alibi_bias_max is read by nothing: the class uses 8")
    use = _use(
        reading, "biases/alibi", "text-attention", parameters, {"heads": heads.value}, notes, length=context.length
    )
    slopes = {name: value for name, value in parameters.items() if name != "form"}
    yield _also(use, slopes=ask("biases", "alibi-slopes", slopes).address())


def _also(use: Use, **addresses: Address) -> Use:
    return replace(use, addresses={**use.addresses, **addresses})


def deberta_v1(reading: Reading, context: Context) -> Iterator[Use]:
    """Clipped distances, a row for each: only with relative_attention."""
    if not reading.flag("relative_attention"):
        return
    most = _most(reading)
    width = reading.needed("hidden_size")
    parameters = {
        "sign": code(reading, "query-key"),
        "left": most,
        "right": most.replaced(most.value - 1),
    }
    facts = {
        "table": [2 * most.value, width.value],
        "max_relative_positions": most.value,
        **_parts(reading),
    }
    yield _use(reading, "biases/shaw", "text-attention", parameters, facts, encoding="deberta", length=context.length)


def deberta_v2(reading: Reading, context: Context) -> Iterator[Use]:
    """Distances in logarithmic buckets where position_buckets says how many, else clipped."""
    if not reading.flag("relative_attention"):
        return
    found = reading.find("position_buckets")
    if found is None or found.value is None or whole(found, -1).value < 1:
        yield from deberta_v1(reading, context)
        return
    buckets, most, width = whole(found), _most(reading), reading.needed("hidden_size")
    parameters = {"position_buckets": buckets, "max_relative_positions": most}
    facts = {
        "table": [2 * buckets.value, width.value],
        "position_buckets": buckets.value,
        "max_relative_positions": most.value,
        **_parts(reading),
    }
    use = _use(
        reading,
        "biases/deberta-buckets",
        "text-attention",
        parameters,
        facts,
        encoding="deberta",
        length=context.length,
    )
    rows = ask("biases", "deberta-buckets", parameters, output="index", length=context.length).address()
    yield _also(use, rows=rows)


def _most(reading: Reading) -> Value:
    """max_relative_positions, or the longest sequence where it is below 1."""
    given = reading.integer("max_relative_positions", -1)
    if given is not None and given.value >= 1:
        return given
    longest = reading.needed("max_position_embeddings")
    return longest.replaced(longest.value)


def _parts(reading: Reading) -> dict[str, Any]:
    """Which products are added, and what the sum is divided by."""
    found = reading.find("pos_att_type")
    given = found.value if found is not None and found.value is not None else []
    if isinstance(given, str):
        given = [part.strip().lower() for part in given.split("|") if part.strip()]
    if found is not None and not (isinstance(given, (list, tuple)) and all(part in ("c2p", "p2c") for part in given)):
        detail = f"pos_att_type is {kind(found.value)}; c2p, p2c or both are needed, as a list or joined by |"
        raise Refusal(found.key, "type", detail)
    parts = sorted(given)
    added = reading.find("position_biased_input")
    return {
        "pos_att_type": parts,
        "absolute_positions_added": added is None or added.value is not False,
        "attention_scale": f"1/sqrt(head_dim*{1 + len(parts)})",
    }


def gemma4_audio(reading: Reading, _context: Context) -> Iterator[Use]:
    """Relative positions from half the attention's context back to the frame itself."""
    parts = [
        reading.needed(key, 0) for key in ("attention_chunk_size", "attention_context_left", "attention_context_right")
    ]
    span = sum(each.value for each in parts) - 1
    rows = parts[0].replaced(span // 2 + 1)
    rules = {
        "layout": "sin-cos",
        "frequency_shift": 1.0,
        "odd_width": "refuse",
        "order": "descending",
        "arithmetic": "float32",
    }
    dim = reading.needed("hidden_size")
    parameters = {"dim": dim, "length": rows} | {name: code(reading, value) for name, value in rules.items()}
    facts = {"rows": rows.value, "table": [rows.value, dim.value]}
    yield _use(reading, "encodings/sinusoidal", "audio-tower", parameters, facts, encoding="transformer-xl")


def perceiver(reading: Reading, _context: Context) -> Iterator[Use]:
    """Which positions a Perceiver has follows from its class, which `architectures` names."""
    named = reading.document.get("architectures")
    name = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    if "Learned" in name:
        key, patches = numbers(reading, "image_size")
        side = patches[0]
        note = "trained positions, 256 wide, concatenated to 256 channels of the input"
        yield learned(reading, "vision-tower", [side * patches[-1], 256], [note], key)
    elif "Fourier" in name or "ConvProcessing" in name:
        key, pixels = numbers(reading, "image_size")
        parameters = {
            "bands": code(reading, 64),
            "spacing": code(reading, "linear"),
            "resolution": Value(float(pixels[0]), "rewritten", key),
            "layout": code(reading, "sin-cos"),
            "include_input": code(reading, "first"),
            "positions": code(reading, [-1.0, 0.0, 1.0]),
        }
        yield _use(reading, "encodings/fourier", "vision-tower", parameters, {"bands": 64, "axes": 2})
    else:
        rows, dim = reading.needed("max_position_embeddings"), reading.needed("d_model")
        notes = () if name else ("architectures is missing: these are the positions of the text model",)
        yield learned(reading, "token-embeddings", [rows.value, dim.value], notes, rows.key)


def reformer(reading: Reading, _context: Context) -> Iterator[Use]:
    """Two factors of a trained table, or one table."""
    if not reading.flag("axial_pos_embds"):
        rows, dim = reading.needed("max_position_embeddings"), reading.needed("hidden_size")
        yield learned(reading, "token-embeddings", [rows.value, dim.value], (), rows.key)
        return
    (key, shape), (dims_key, dims) = numbers(reading, "axial_pos_shape"), numbers(reading, "axial_pos_embds_dim")
    rows, dim = reading.needed("max_position_embeddings"), reading.needed("hidden_size")
    if len(shape) != 2 or math.prod(shape) != rows.value:
        detail = (
            f"axial_pos_shape {list(shape)} must be two sizes whose product is {rows.value}, max_position_embeddings"
        )
        raise Refusal(key, "conflict", detail)
    if len(dims) != 2 or sum(dims) != dim.value:
        detail = f"axial_pos_embds_dim {list(dims)} must be two sizes whose sum is {dim.value}, hidden_size"
        raise Refusal(dims_key, "conflict", detail)
    parameters = {"joining": code(reading, "rows-columns"), "axes": code(reading, "sequence")}
    address: Address = ask("learned", "factorised", parameters).address()
    yield Use(
        role="token-embeddings",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="learned",
        scheme=("learned", "factorised"),
        parameters=parameters,
        facts={"tables": [[shape[0], 1, dims[0]], [1, shape[1], dims[1]]], "first_row": 0},
        addresses={"tables": address},
    )


def dab_detr(reading: Reading, context: Context) -> Iterator[Use]:
    """A temperature for each axis; the queries are boxes."""
    high, wide = (reading.needed(f"temperature_{axis}") for axis in ("height", "width"))
    dim = reading.needed("hidden_size")
    parameters = {
        "dim": dim,
        "base": high.replaced([float(high.value), float(wide.value)]),
        "grid": code(reading, [25, 34]),
        "arithmetic": code(reading, "float32"),
    }
    scale = reading.number("sine_position_embedding_scale")
    if scale is not None:
        parameters["scale"] = scale
    notes = ["for a feature map of grid rows and columns without padding; POST takes the batch's mask"]
    yield _use(
        reading, "encodings/detr", "encoder-attention", parameters, {"scale": scale.value if scale else "2*pi"}, notes
    )
    yield from boxes(reading, context)


def sam_prompt(reading: Reading, _context: Context) -> Iterator[Use]:
    """Points and boxes: random Fourier features whose frequencies are part of the checkpoint."""
    dim = reading.needed("hidden_size")
    parameters = {"dim": dim, "coordinates": code(reading, "last-axis")}
    yield Use(
        role="token-embeddings",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="gaussian-fourier",
        scheme=("encodings", "gaussian-fourier"),
        parameters=parameters,
        facts={"table": [2, dim.value // 2]},
        notes=("the frequencies are in the checkpoint: POST them as weights, and points in -1 ... 1 as positions",),
        addresses={"tables": Address(f"/v1/encodings/gaussian-fourier?dim={dim.value}&coordinates=last-axis", "POST")},
    )


def maskformer(reading: Reading, _context: Context) -> Iterator[Use]:
    """The width is that of the DETR decoder within."""
    block = reading.object("decoder_config") or {}
    key = next((name for name in ("d_model", "hidden_size") if name in block), "d_model")
    dim = whole(Value(block.get(key, 256), "config" if key in block else "class default", reading.at("decoder_config")))
    parameters = {"dim": dim, "grid": code(reading, [25, 34]), "arithmetic": code(reading, "float32")}
    yield _use(reading, "encodings/detr", "decoder-attention", parameters, {})


def vivit(reading: Reading, context: Context) -> Iterator[Use]:
    """A row for each tubelet of a clip, and one before them."""
    key, (rows, columns) = grid(reading, "image_size", "tubelet_size")
    frames = reading.needed("num_frames")
    found = reading.find("tubelet_size")
    depth = found.value[0] if found is not None and isinstance(found.value, (list, tuple)) else 1
    count = rows * columns * (frames.value // depth) + 1
    yield learned(reading, context.role, [count, reading.needed("hidden_size").value], (), key)


def spectrogram(reading: Reading, _context: Context) -> Iterator[Use]:
    """Patches of a spectrogram that overlap, behind two tokens."""
    patch = reading.needed("patch_size").value
    bins, longest = reading.needed("num_mel_bins"), reading.needed("max_length")
    steps = reading.needed("frequency_stride").value, reading.needed("time_stride").value
    rows = [(each.value - patch) // step + 1 for each, step in zip((bins, longest), steps, strict=True)]
    table = [math.prod(rows) + 2, reading.needed("hidden_size").value]
    yield learned(reading, "audio-tower", table, (), longest.key)


def yolos(reading: Reading, _context: Context) -> Iterator[Use]:
    """Patches, a class token and the detection tokens; a table for each layer between where asked for."""
    tokens = reading.needed("num_detection_tokens", 0)
    rows = size(reading, {"grid": ["image_size", "patch_size"], "plus": 1 + tokens.value})
    width = reading.needed("hidden_size")
    yield learned(reading, "vision-tower", [rows.value, width.value], (), rows.key)
    if reading.flag("use_mid_position_embeddings"):
        between = max(0, reading.layers() - 1)
        note = f"added between layers: {between} tables of this size"
        yield learned(reading, "vision-tower", [rows.value, width.value], [note], rows.key)


def pvt(reading: Reading, _context: Context) -> Iterator[Use]:
    """A table for each stage; the last has a class token before its patches."""
    key, (height, width) = grid(reading, "image_size", "image_size")
    pixels = numbers(reading, "image_size")[1]
    height, width = pixels[0], pixels[-1]
    patches, widths = numbers(reading, "patch_sizes")[1], numbers(reading, "hidden_sizes")[1]
    if len(patches) != len(widths):
        raise Refusal(
            reading.at("patch_sizes"), "shape", f"patch_sizes has {len(patches)} entries for {len(widths)} stages"
        )
    for stage, (patch, dim) in enumerate(zip(patches, widths, strict=True)):
        height, width = height // patch, width // patch
        rows = height * width + (1 if stage == len(widths) - 1 else 0)
        if not height * width:
            raise Refusal(key, "conflict", f"stage {stage} has no patch left of image_size {list(pixels)}")
        yield learned(reading, "vision-tower", [rows, dim], [f"stage {stage}"], key)


def florence(reading: Reading, _context: Context) -> Iterator[Use]:
    """Rows and columns of the map, trained, and a sinusoid over frames."""
    key, widths = numbers(reading, "embed_dim")
    rows, frames = reading.needed("max_position_embeddings"), reading.needed("max_temporal_embeddings")
    parameters = {"joining": code(reading, "columns-rows"), "axes": code(reading, "channels-first")}
    yield Use(
        role="vision-tower",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="learned",
        scheme=("learned", "factorised"),
        parameters=parameters,
        facts={"tables": [[rows.value, widths[-1] // 2], [rows.value, widths[-1] - widths[-1] // 2]]},
        addresses={"tables": ask("learned", "factorised", parameters).address()},
    )
    rules = {"odd_width": "refuse", "layout": "interleaved", "arithmetic": "float32"}
    dim = Value(widths[-1], "rewritten", key)
    given = {"dim": dim, "length": frames} | {name: code(reading, value) for name, value in rules.items()}
    facts = {"table": [frames.value, dim.value], "rows": frames.value, "width": dim.value, "first_row": 0}
    yield _use(reading, "encodings/sinusoidal", "vision-tower", given, facts)


def boxes(reading: Reading, _context: Context) -> Iterator[Use]:
    """Queries are boxes, whose sines go through a small network."""
    dim = reading.needed("hidden_size")
    given = {"dim": dim.replaced(dim.value // 2), "arithmetic": code(reading, "float32")}
    yield Use(
        role="decoder-attention",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="detr-boxes",
        scheme=("encodings", "detr-boxes"),
        parameters=given,
        facts={"coordinates": 4},
        addresses={"tables": ask("encodings", "detr-boxes", given).address()},
    )


SPECIAL: Mapping[str, Special] = {
    "boxes": boxes,
    "florence": florence,
    "beit": beit,
    "dab_detr": dab_detr,
    "deberta_v1": deberta_v1,
    "deberta_v2": deberta_v2,
    "gemma4_audio": gemma4_audio,
    "levit": levit,
    "maskformer": maskformer,
    "mpt": mpt,
    "patchtst": patchtst,
    "perceiver": perceiver,
    "pvt": pvt,
    "reformer": reformer,
    "sam_prompt": sam_prompt,
    "spectrogram": spectrogram,
    "swin": swin,
    "swin_v2": swin_v2,
    "videomae": videomae,
    "vit_mae": vit_mae,
    "vivit": vivit,
    "yolos": yolos,
}
