"""The header of a GGUF file, as JSON keys and values: what llama.cpp computes for the architecture that it names.

Half of the answer is in the header (`rope.freq_base`, `rope.dimension_count`, `rope.scaling.*`), the other half only in
llama.cpp's code: how each architecture pairs channels, Gemma 3's local base, which layers of Llama 4 do not turn.
"""

from collections.abc import Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.gguf_architectures import (
    ALIBI,
    ALIBI_OF_DEPTH,
    ALIBI_STATED,
    BOTH_WAYS,
    BUCKETS,
    KNOWN,
    LEARNED,
    NOTES,
    REFUSED,
    WITHOUT,
)
from service.models.gguf_header import Header, refuse_other_prefix, refuse_uneven_heads, unread, use_of
from service.models.gguf_layers import Kind, kinds, layers_of
from service.models.gguf_masks import masks_of
from service.models.gguf_rotary import turning, unturned
from service.models.nearest import echo, nearest
from service.models.plan import Plan, Use
from service.models.reading import kind, pointer
from service.models.stacks import NOTE as CROSS_NOTE
from service.models.windows import padding_mask


def is_gguf(config: Mapping[str, Any]) -> bool:
    return "general.architecture" in config or isinstance(config.get("gguf"), Mapping)


def gguf_plan(config: Mapping[str, Any], context: Context) -> Plan:
    """The plan of a header.

    >>> from service.models.context import Options
    >>> header = {"general.architecture": "qwen2", "qwen2.embedding_length": 896, "qwen2.attention.head_count": 14}
    >>> [use] = gguf_plan(header, Context(Options())).uses
    >>> use.parameters["pairing"].value, use.facts["rotary_dim"]
    ('half', 64)
    """
    where = "/gguf" if isinstance(config.get("gguf"), Mapping) else ""
    header: Mapping[str, Any] = config["gguf"] if where else config
    name = header.get("general.architecture")
    place = pointer(where, "general.architecture")
    if not isinstance(name, str):
        what = "is missing" if name is None else f"is {kind(name)}"
        raise Refusal(
            place, "missing", f"general.architecture {what}: it decides how llama.cpp turns, and which keys count"
        )
    if name in REFUSED:
        raise Refusal(place, "unsupported", f"{name} is {REFUSED[name]}")
    if name not in KNOWN:
        near = nearest(name, list(KNOWN))
        hint = f"; nearest are {', '.join(near)}" if near else ""
        raise Refusal(place, "unknown", f"{echo(name)} is no architecture known here{hint}")
    read = Header(header, where, name)
    refuse_other_prefix(read)
    refuse_uneven_heads(read)
    notes = ("read as a GGUF header: the numbers are those of llama.cpp", *_notes(read), *unread(read))
    return Plan(model_type=name, preset="llama.cpp", uses=tuple(_uses(read, context)), notes=notes)


def _notes(header: Header) -> list[str]:
    """What deserves saying of the architecture, and of blocks that are no layers."""
    name = header.type.name
    found = [NOTES[name]] if name in NOTES else []
    if name == "llama4" and _windows_off(header):
        found.append(
            "llama.cpp means all layers to turn where attention.sliding_window is 0; its code leaves out the last"
        )
    further = header.count("nextn_predict_layers", 0)
    if further is not None and further.value and header.count("block_count") is not None:
        found.append(f"the last {further.value} of block_count predict further tokens: they are in no list of layers")
    return found


def _windows_off(header: Header) -> bool:
    """Whether the header turns windows off, by one of size 0."""
    size = header.count("attention.sliding_window", 0)
    return size is not None and size.value == 0


def _uses(header: Header, context: Context) -> list[Use]:
    name = header.type.name
    if name in WITHOUT:
        return _without(header, context)
    if name in LEARNED:
        return [_learned(header, context)]
    if name in ALIBI or (name in ALIBI_OF_DEPTH and layers_of(header) == ALIBI_OF_DEPTH[name]):
        return [_alibi(header, context)]
    if name in BUCKETS:
        return _buckets(header, context)
    return turning(header, context)


def _without(header: Header, context: Context) -> list[Use]:
    """No positions: the layers that attend, where a list of their heads tells them."""
    heads = header.value("attention.head_count_kv")
    if heads is None or not isinstance(heads.value, list):
        return [use_of(header, "none", notes=("no positional encoding",))]
    return [unturned(header, context, kind) for kind in kinds(header)]


def _learned(header: Header, context: Context) -> Use:
    rows, dim = header.wanted("context_length"), header.wanted("embedding_length")
    rule = {"offset_rule": header.code("none")}
    return use_of(
        header,
        "learned",
        role="token-embeddings",
        scheme=("learned", "lookup"),
        parameters={"rows": rows, "dim": dim, **rule},
        facts={"table": [rows.value, dim.value], "first_row": 0, "tensor": "position_embd.weight"},
        addresses={
            "lookup": ask("learned", "lookup", rule, length=str(rows.value)).address(),
            **masks_of(header, _all_layers(header), context),
        },
    )


def _alibi(header: Header, context: Context) -> Use:
    parameters = {
        "heads": header.wanted("attention.head_count"),
        # The mask has minus the distance to what is behind, as to what is before, where the mask lets it be seen.
        "form": header.code("symmetric"),
        # ggml takes powers of a first slope, as BLOOM does.
        "arithmetic": header.code("float32-powers"),
    }
    masks = masks_of(header, _all_layers(header), context)
    if header.type.name in ALIBI_STATED:
        most = header.real("attention.max_alibi_bias")
        if most is None or most.value == 0:
            said = "missing" if most is None else "0"
            note = f"{header.type.name}.attention.max_alibi_bias is {said}: llama.cpp adds no bias"
            return use_of(header, "none", notes=(note,), addresses=masks)
        parameters["alibi_bias_max"] = most
    addresses = {"tables": ask("biases", "alibi", parameters, length=context.length).address(), **masks}
    return use_of(header, "alibi", scheme=("biases", "alibi"), parameters=parameters, addresses=addresses)


def _all_layers(header: Header) -> Kind:
    """Layers that all do the same, of an architecture whose code sees both ways, or what is before."""
    return Kind(None, None, both_ways=header.type.name in BOTH_WAYS)


def _buckets(header: Header, context: Context) -> list[Use]:
    number = header.count("attention.relative_buckets_count") or header.code(32)
    uses = []
    for role, direction in (("encoder-attention", "bidirectional"), ("decoder-attention", "causal")):
        if direction == "causal" and header.type.name == "t5encoder":
            continue
        parameters = {"direction": header.code(direction), "num_buckets": number, "max_distance": header.code(128)}
        addresses = {
            "tables": ask("biases", "t5-buckets", parameters, length=context.length).address(),
            **masks_of(header, Kind(None, None, both_ways=direction == "bidirectional"), context),
        }
        uses.append(
            use_of(
                header,
                "t5",
                role=role,
                scheme=("biases", "t5-buckets"),
                parameters=parameters,
                facts={"table": [number.value, header.wanted("attention.head_count").value]},
                addresses=addresses,
            )
        )
    if header.type.name == "t5" and (header.count("decoder_block_count", 0) or header.code(1)).value:
        mask = {"mask": padding_mask(context)}
        uses.append(use_of(header, "none", role="cross-attention", notes=(CROSS_NOTE,), addresses=mask))
    return uses
