"""Models whose rows no table can state: sizes that change from stage to stage, keys that hold lists or objects."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.chunks import reformer_layers
from service.models.families.inkling import inkling
from service.models.families.local import attention_windows, gpt_neo, hybrid, streaming
from service.models.families.relative import xlnet
from service.models.families.rotations import clvp, esm_atoms, musicflamingo, vjepa2
from service.models.families.sam import sam_distances
from service.models.families.timm import timm
from service.models.families.towers import (
    boxes,
    dab_detr,
    florence,
    granite_projectors,
    maskformer,
    pvt,
    sam_prompt,
    spectrogram,
    videomae,
    vit_mae,
    vivit,
    yolos,
)
from service.models.families.uses import also, code, learned, none, use_of
from service.models.families.windows import beit, levit, swin, swin_v2
from service.models.nearest import echo, nearest
from service.models.plan import Address, Use, Value
from service.models.reading import Reading, kind, numeric, pointer, whole
from service.models.sizes import numbers

Special = Callable[[Reading, Context], Iterator[Use]]


def patchtst(reading: Reading, _context: Context) -> Iterator[Use]:
    """PatchTST and PatchTSMixer: a sinusoid with its mean taken off, divided by ten deviations; or a trained table."""
    dim, patches = reading.needed("d_model"), _patches(reading)
    used = reading.find("use_positional_encoding")
    if used is not None and used.value is False:
        yield none(reading, "use_positional_encoding is false: nothing is added")
    elif (reading.text("positional_encoding_type") or code(reading, "sincos")).value == "random":
        yield learned(reading, "token-embeddings", [patches.value, dim.value], (), patches.key)
    else:
        rules = {"standardisation": "tenth", "odd_width": "refuse", "layout": "interleaved"}
        parameters = {"dim": dim, "length": patches} | {name: code(reading, value) for name, value in rules.items()}
        facts = {"table": [patches.value, dim.value], "rows": patches.value, "width": dim.value, "first_row": 0}
        yield use_of(reading, "encodings/sinusoidal", "token-embeddings", parameters, facts)


def _patches(reading: Reading) -> Value:
    length, patch, stride = (reading.needed(key) for key in ("context_length", "patch_length", "patch_stride"))
    if length.value <= patch.value:
        detail = f"context_length is {length.value}: it must be above patch_length {patch.value}"
        raise Refusal(length.key, "conflict", detail)
    count = (length.value - patch.value) // stride.value + 1
    return length.replaced(count + (1 if reading.flag("use_cls_token") else 0))


# Of MPT, what decides about it.
ALIBI = ("alibi", "alibi_bias_max")


def _refuse_misspelt(reading: Reading, block: Mapping[str, object]) -> None:
    """A key of MPT's attention block that is nearly one that decides about ALiBi."""
    for key in block:
        near = nearest(key, ALIBI, 1)
        if near and key not in ALIBI:
            place = pointer(reading.at("attn_config"), key)
            raise Refusal(place, "unknown", f"{echo(key)} is no key of MPT's attention; did you mean {near[0]}?")


def mpt(reading: Reading, context: Context) -> Iterator[Use]:
    """ALiBi where the attention block says so, else a model without positions: `learned_pos_emb` is read by nothing."""
    block = reading.object("attn_config") or {}
    _refuse_misspelt(reading, block)
    unread = [f"attn_config.{key}" for key in ("rope", "rope_impl", "rope_theta") if block.get(key)]
    if block.get("alibi", True) is False:
        why = f"attn_config.alibi is false, and {', '.join(['learned_pos_emb', *unread])} "
        yield none(reading, f"{why}{'are' if unread else 'is'} read by nothing", "text-attention")
        return
    heads = reading.needed("num_attention_heads")
    said = {"form": "last-key", "arithmetic": "float32-reciprocals"}
    if reading.preset == "llama.cpp":  # distances, and powers of a first slope, whatever the model
        said = {"form": "symmetric", "arithmetic": "float32-powers"}
    parameters = {"heads": heads} | {name: code(reading, value) for name, value in said.items()}
    notes = [f"{', '.join(unread)} {'are' if len(unread) > 1 else 'is'} read by nothing"] if unread else []
    if reading.document.get("learned_pos_emb"):
        notes.append("learned_pos_emb is read by nothing")
    most = block.get("alibi_bias_max")
    if reading.preset in ("vllm", "llama.cpp") and most is not None:
        place = pointer(reading.at("attn_config"), "alibi_bias_max")
        parameters["alibi_bias_max"] = numeric(Value(most, "config", place))
    elif most not in (None, 8):
        notes.append("alibi_bias_max is read by nothing: the class uses 8")
    use = use_of(
        reading, "biases/alibi", "text-attention", parameters, {"heads": heads.value}, notes, length=context.length
    )
    slopes = {name: value for name, value in parameters.items() if name != "form"}
    yield also(use, slopes=ask("biases", "alibi-slopes", slopes).address())


def deberta_v1(reading: Reading, context: Context) -> Iterator[Use]:
    """Clipped distances, a row for each: only with relative_attention."""
    if not reading.flag("relative_attention"):
        yield from _neither(reading)
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
    yield use_of(reading, "biases/shaw", "text-attention", parameters, facts, encoding="deberta", length=context.length)


def _neither(reading: Reading) -> Iterator[Use]:
    added = reading.find("position_biased_input")
    if added is not None and added.value is False:
        why = "relative_attention and position_biased_input are false: nothing tells tokens apart"
        yield none(reading, why, "text-attention")


def deberta_v2(reading: Reading, context: Context) -> Iterator[Use]:
    """Distances in logarithmic buckets where position_buckets says how many, else clipped."""
    if not reading.flag("relative_attention"):
        yield from _neither(reading)
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
    use = use_of(
        reading,
        "biases/deberta-buckets",
        "text-attention",
        parameters,
        facts,
        encoding="deberta",
        length=context.length,
    )
    rows = ask("biases", "deberta-buckets", parameters, output="index", length=context.length).address()
    yield also(use, rows=rows)


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
        "absolute_positions_added": added is None or added.value is None or reading.flag("position_biased_input"),
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
    yield use_of(reading, "encodings/sinusoidal", "audio-tower", parameters, facts, encoding="transformer-xl")


def _first_class(reading: Reading) -> str:
    """The first that `architectures` names; nothing where there is none."""
    named = reading.list_of("architectures")
    if named is None or not named.value:
        return ""
    if not isinstance(named.value[0], str):
        raise Refusal(f"{named.key}/0", "type", f"a class is {kind(named.value[0])}; its name is needed")
    return named.value[0]


def perceiver(reading: Reading, _context: Context) -> Iterator[Use]:
    """Which positions a Perceiver has follows from its class, which `architectures` names."""
    name = _first_class(reading)
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
        yield use_of(reading, "encodings/fourier", "vision-tower", parameters, {"bands": 64, "axes": 2})
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


SPECIAL: Mapping[str, Special] = {
    "attention_windows": attention_windows,
    "gpt_neo": gpt_neo,
    "esm_atoms": esm_atoms,
    "boxes": boxes,
    "clvp": clvp,
    "florence": florence,
    "beit": beit,
    "dab_detr": dab_detr,
    "deberta_v1": deberta_v1,
    "deberta_v2": deberta_v2,
    "gemma4_audio": gemma4_audio,
    "granite_projectors": granite_projectors,
    "hybrid": hybrid,
    "inkling": inkling,
    "levit": levit,
    "maskformer": maskformer,
    "mpt": mpt,
    "musicflamingo": musicflamingo,
    "patchtst": patchtst,
    "perceiver": perceiver,
    "pvt": pvt,
    "reformer": reformer,
    "reformer_layers": reformer_layers,
    "sam_distances": sam_distances,
    "sam_prompt": sam_prompt,
    "spectrogram": spectrogram,
    "streaming": streaming,
    "swin": swin,
    "swin_v2": swin_v2,
    "timm": timm,
    "videomae": videomae,
    "vit_mae": vit_mae,
    "vivit": vivit,
    "vjepa2": vjepa2,
    "xlnet": xlnet,
    "yolos": yolos,
}
