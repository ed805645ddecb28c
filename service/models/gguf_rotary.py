"""Rotary attention of a GGUF header: widths, bases, sections, scalings and layers as llama.cpp has them."""

from fractions import Fraction
from typing import Any

import numpy as np

from service.engine.errors import Refusal
from service.engine.numbers.reals import geometric
from service.models.addresses import ask
from service.models.context import Context
from service.models.gguf_architectures import DEFAULT_BASE, INTERLEAVED, LATENT, NORMAL, SECTIONED, SECTIONS
from service.models.gguf_header import Header, use_of
from service.models.gguf_layers import Kind, kinds
from service.models.gguf_masks import masks_of, window_of
from service.models.gguf_scaling import reads, scaling
from service.models.gguf_temperatures import temperature
from service.models.plan import Address, Use, Value
from service.models.reading import kind as json_kind
from service.models.reading import whole


def turning(header: Header, context: Context) -> list[Use]:
    """Rotary attention: a use for each kind of layers."""
    return [_rotary(header, context, kind) if kind.turns else unturned(header, context, kind) for kind in kinds(header)]


def unturned(header: Header, context: Context, kind: Kind) -> Use:
    """Layers without positions."""
    if kind.label == "linear_attention":
        said = "linear_attention: no attention, nothing turns"
        return use_of(header, "none", layer_type=kind.label, layers=kind.layers, notes=(said,))
    said = "these layers have no positional encoding: llama.cpp has it in its code, not in the header"
    facts, addresses, notes = temperature(header, kind, context)
    more = {"notes": (said, *notes), "facts": facts, "addresses": {**addresses, **masks_of(header, kind, context)}}
    return use_of(header, "none", layer_type=kind.label, layers=kind.layers, **more)


def _rotary(header: Header, context: Context, kind: Kind) -> Use:
    parameters = _widths(header, kind)
    turned = parameters.get("rotary_dim", parameters["dim"])
    parameters["base"] = _base(header, kind)
    facts: dict[str, Any] = {}
    notes = [*_narrower(parameters), *_assumed(header, kind, parameters)]
    parameters |= scaling(header, kind, turned.value, facts, notes)
    parameters["pairing"] = header.code(_pairing(header, facts, notes))
    if "rotary_dim" in parameters and _last(header):
        parameters["rotary_channels"] = header.code("last")
    parameters["arithmetic"] = header.code("ggml")
    warm, factors, said = temperature(header, kind, context)
    tables = ask("encodings", "rope", _without(parameters, "rotary_channels"), length=context.length)
    unplaced = _without(parameters, "pairing", "rotary_channels")
    addresses = {
        "tables": tables.address(),
        "frequencies": ask("encodings", "rope", unplaced, output="frequencies").address(),
        "rotation": ask("apply", "rope", _without(parameters, "dim")).address(),
        **_axes(header, parameters, facts, notes),
        **factors,
        **masks_of(header, kind, context),
    }
    return use_of(
        header,
        "rope",
        scheme=("encodings", "rope"),
        layer_type=kind.label,
        layers=kind.layers,
        parameters=parameters,
        facts={**tables.facts(), **facts, **warm},
        notes=(*notes, *said),
        window=window_of(header, kind)[0],
        addresses=addresses,
    )


def _narrower(parameters: dict[str, Value]) -> list[str]:
    """A width that the header has in its sections alone, as those of Qwen 3.5 add up to a quarter of a head."""
    turned = parameters.get("rotary_dim")
    if turned is None or not turned.key.endswith("dimension_sections"):
        return []
    return [
        f"rope.dimension_count is missing: {turned.value} channels turn, those of the sections; of such a file "
        f"llama.cpp would turn all {parameters['dim'].value}"
    ]


def _assumed(header: Header, kind: Kind, parameters: dict[str, Value]) -> list[str]:
    """What the header does not say, and llama.cpp assumes."""
    dim, found = parameters["dim"], []
    if dim.key.endswith(".embedding_length"):
        shared = f"heads of {dim.value} channels are assumed, embedding_length / attention.head_count"
        found.append(f"attention.key_length is missing: {shared}")
    if header.value("rope.dimension_count") is None and "rotary_dim" not in parameters:
        found.append(f"rope.dimension_count is missing: all {dim.value} channels of a head are assumed to turn")
    if header.value("rope.freq_base") is None:
        found.append(f"rope.freq_base is missing: {DEFAULT_BASE:g} is assumed")
    pattern = kind.pattern
    if pattern is not None and pattern.told and pattern.period:
        which = "first" if pattern.full_first else "last"
        if header.value("attention.sliding_window_pattern") is None:
            said = f"the {which} of every {pattern.period} layers is assumed to see everything, the others to slide"
            found.append(f"attention.sliding_window_pattern is missing: {said}")
    return found


def _without(parameters: dict[str, Value], *names: str) -> dict[str, Value]:
    return {key: value for key, value in parameters.items() if key not in names}


def _last(header: Header) -> bool:
    """Whether the last channels of a head turn, and not the first: DeepSeek V4, and what drafts for it."""
    drafts = header.count("hyper_connection.count", 0) if header.type.name == "dflash" else None
    return header.type.name == "deepseek4" or (drafts is not None and drafts.value > 0)


def _axes(header: Header, parameters: dict[str, Value], facts: dict[str, Any], notes: list[str]) -> dict[str, Address]:
    """The tables for positions on several axes, of unscaled sections."""
    sections = header.value("rope.dimension_sections")
    if sections is None or "section_rule" not in facts or parameters["rope_type"].value != "default":
        return {}
    found = {name: parameters[name] for name in OF_AXES if name in parameters} | {"sections": sections}
    grid = ",".join(["2"] * len(sections.value))
    try:
        axes = ask("encodings", "rope-axes", found, section_rule=facts["section_rule"], grid=grid)
    except Refusal as error:
        notes.append(f"no address has these sections: {error}")
        return {}
    return {"axes": axes.address()}


# What tables on several axes take of those on one.
OF_AXES = ("dim", "base", "rotary_dim", "pairing", "arithmetic")


def _base(header: Header, kind: Kind) -> Value:
    """`rope.freq_base`; sliding layers may have one of their own, in the header or in the code."""
    full = _trained_base(header)
    if kind.compressed:
        key = "attention.compress_rope_freq_base"
        found = header.real(key)
        if found is None:
            named = f"{header.type.name}.{key}"
            raise Refusal(header.at(named), "missing", f"{named} is missing: layers that compress turn by it")
        return found
    if not kind.slides or kind.pattern is None or kind.pattern.base == "full":
        return full
    default = header.code(DEFAULT_BASE) if kind.pattern.base == "own" else full
    return header.real("rope.freq_base_swa") or default


def _trained_base(header: Header) -> Value:
    """`rope.freq_base`, and times alpha^(d / (d - 2)) in float32 where a HunYuan file has an alpha."""
    base = header.real("rope.freq_base") or header.code(DEFAULT_BASE)
    alpha = header.real("rope.scaling.alpha") if reads(header, "scaling.alpha") else None
    if alpha is None or alpha.value <= 0:
        return base
    width = _head(header).value
    if width < 3:
        raise Refusal(alpha.key, "conflict", f"alpha^(d / (d - 2)) needs a head of more than 2 channels, not {width}")
    (raised,) = geometric(alpha.value, [Fraction(width, width - 2)]).rounded()
    if not abs(base.value) * max(raised, 1) < np.finfo(np.float32).max:
        raise Refusal(alpha.key, "out_of_range", "the base times alpha^(d / (d - 2)) is too large for float32")
    return alpha.replaced(float(np.float32(base.value) * np.float32(raised)))


def _pairing(header: Header, facts: dict[str, Any], notes: list[str]) -> str:
    """Which channels turn together; sections make halves of what has none by itself."""
    name = header.type.name
    sections = _sections(header)
    if sections is not None and any(_section_sizes(sections)):
        facts["mrope_section"] = sections.value
        facts["section_rule"] = "interleaved-ggml" if name in INTERLEAVED else "chunked"
        return "half"
    if name not in NORMAL and not (name == "dflash" and _last(header)):
        return "half"
    if name not in UNPERMUTED:
        notes.append(
            "neighbours turn together: the converter permutes the rows of the projections of half-turning models"
        )
    return "interleaved"


# Whose models turn neighbours everywhere: no converter permutes their rows.
UNPERMUTED = (
    *("chatglm", "glm4", "command-r", "cohere2", "cohere2moe", "bailingmoe3", "deepseek4", "dflash", "dots3note"),
    *("hy_v4", "muse-glimmer", "pockettts"),
)


def _widths(header: Header, kind: Kind) -> dict[str, Value]:
    """The head's width and how much of it turns; sliding layers may have widths of their own."""
    turned = _width(header, "rope.dimension_count", local=kind.slides)
    width = _width(header, "attention.key_length", local=kind.slides)
    sections = _sections(header)
    if turned is None and sections is not None and header.type.name in INTERLEAVED:
        turned = sections.replaced(2 * sum(_section_sizes(sections)))
    if header.type.name in LATENT and turned is not None:
        return {"dim": turned}
    if width is None and header.count("embedding_length") is not None:
        width = _head(header)
    if width is None and turned is None and sections is not None:
        width = sections.replaced(2 * sum(_section_sizes(sections)))
    if width is None and turned is None:
        header.wanted("rope.dimension_count")
    width = width or turned
    assert width is not None
    if turned is not None and turned.value > width.value:
        detail = f"{turned.key[1:]} is {turned.value}, and a head has {width.value} channels ({width.key[1:]})"
        raise Refusal(turned.key, "conflict", detail)
    if header.type.name in HALVED and not kind.slides:
        turned = (turned or width).replaced((turned or width).value // 2)
    if turned is None or turned.value == width.value:
        return {"dim": width}
    return {"dim": width, "rotary_dim": turned}


def _head(header: Header) -> Value:
    """The width of a head: stated, or what the heads share of the whole."""
    stated = header.count("attention.key_length")
    if stated is not None:
        return stated
    whole_width, heads = header.wanted("embedding_length"), header.wanted("attention.head_count")
    if whole_width.value % heads.value:
        detail = f"embedding_length {whole_width.value} is no multiple of attention.head_count {heads.value}"
        raise Refusal(heads.key, "conflict", detail)
    return whole_width.replaced(whole_width.value // heads.value)


# Whose full layers turn half of what the header says.
HALVED = ("step35",)


def _width(header: Header, name: str, *, local: bool) -> Value | None:
    own = header.count(f"{name}_swa") if local else None
    return header.count(name) if own is None else own


def _sections(header: Header) -> Value | None:
    """The pairs of each axis, of an architecture that reads them; those that turn by axes alone do not load without."""
    name = header.type.name
    found = header.value("rope.dimension_sections") if name in SECTIONED else None
    if name not in (*SECTIONS, *INTERLEAVED) or (found is not None and any(_section_sizes(found))):
        return found
    full = f"{name}.rope.dimension_sections"
    said = "is missing" if found is None else "has no pairs"
    detail = f"{full} {said}: llama.cpp turns by axes here, and needs the pairs of each, such as [16, 24, 24, 0]"
    raise Refusal(header.at(full), "missing" if found is None else "out_of_range", detail)


def _section_sizes(sections: Value) -> list[int]:
    """The pairs of each axis; llama.cpp throws at a list of another length than four."""
    if not isinstance(sections.value, list):
        detail = f"rope.dimension_sections is {json_kind(sections.value)}; a list of four numbers of pairs is needed"
        raise Refusal(sections.key, "type", detail)
    if len(sections.value) != AXES:
        detail = (
            f"rope.dimension_sections has {len(sections.value)} entries; llama.cpp needs {AXES}, 0 for an axis of none"
        )
        raise Refusal(sections.key, "shape", detail, limit=AXES, requested=len(sections.value))
    return [whole(Value(each, sections.source, sections.key), 0, 4096).value for each in sections.value]


AXES = 4
