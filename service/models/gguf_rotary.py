"""Rotary attention of a GGUF header: widths, bases, sections, scalings and layers as llama.cpp has them."""

from typing import Any

from service.engine.errors import Refusal
from service.engine.numbers.reals import Reals
from service.models.addresses import ask
from service.models.context import Context
from service.models.gguf_architectures import DEFAULT_BASE, DIVIDED, FACTORED, INTERLEAVED, NORMAL
from service.models.gguf_header import Header, use_of
from service.models.gguf_layers import Kind, kinds, mask_of, window_of
from service.models.nearest import echo
from service.models.plan import Address, Use, Value
from service.models.reading import whole


def turning(header: Header, context: Context) -> list[Use]:
    """Rotary attention: a use for each kind of layers."""
    return [
        _rotary(header, context, kind) if kind.turns else _unturned(header, context, kind) for kind in kinds(header)
    ]


def _unturned(header: Header, context: Context, kind: Kind) -> Use:
    if kind.label == "linear_attention":
        said = "linear_attention: no attention, nothing turns"
        return use_of(header, "none", layer_type=kind.label, layers=kind.layers, notes=(said,))
    said = "these layers have no positional encoding: llama.cpp has it in its code, not in the header"
    mask = {"mask": mask_of(header, kind, context)}
    return use_of(header, "none", layer_type=kind.label, layers=kind.layers, notes=(said,), addresses=mask)


def _rotary(header: Header, context: Context, kind: Kind) -> Use:
    local = kind.label == "sliding_attention"
    parameters = _widths(header, local=local)
    turned = parameters.get("rotary_dim", parameters["dim"])
    parameters["base"] = _base(header, kind)
    facts: dict[str, Any] = {}
    notes: list[str] = []
    plain = {"rope_type": header.code("default")}
    parameters |= plain if local and not kind.scaled else _scaling(header, turned.value, facts, notes)
    parameters["pairing"] = header.code(_pairing(header, facts, notes))
    parameters["arithmetic"] = header.code("ggml")
    tables = ask("encodings", "rope", parameters, length=context.length)
    unplaced = {key: value for key, value in parameters.items() if key != "pairing"}
    rotation = {key: value for key, value in parameters.items() if key != "dim"}
    addresses = {
        "tables": tables.address(),
        "frequencies": ask("encodings", "rope", unplaced, output="frequencies").address(),
        "rotation": ask("apply", "rope", rotation).address(),
        **_axes(header, parameters, facts, notes),
        "mask": mask_of(header, kind, context),
    }
    return use_of(
        header,
        "rope",
        scheme=("encodings", "rope"),
        layer_type=kind.label,
        layers=kind.layers,
        parameters=parameters,
        facts={**tables.facts(), **facts},
        notes=tuple(notes),
        window=window_of(header, kind)[0],
        addresses=addresses,
    )


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
    own = header.real("rope.freq_base_swa") if kind.label == "sliding_attention" else None
    if own is not None:
        return own
    if kind.local and kind.label == "sliding_attention":
        return header.code(DEFAULT_BASE)
    return header.real("rope.freq_base") or header.code(DEFAULT_BASE)


def _pairing(header: Header, facts: dict[str, Any], notes: list[str]) -> str:
    """Which channels turn together; sections make halves of what has none by itself."""
    name = header.type.name
    sections = header.value("rope.dimension_sections")
    if sections is not None and any(_section_sizes(sections)):
        facts["mrope_section"] = sections.value
        facts["section_rule"] = "interleaved-ggml" if name in INTERLEAVED else "chunked"
        return "half"
    if name not in NORMAL:
        return "half"
    if name not in ("chatglm", "glm4", "command-r", "cohere2", "cohere2moe"):
        notes.append(
            "neighbours turn together: the converter permutes the rows of the projections of half-turning models"
        )
    return "interleaved"


def _widths(header: Header, *, local: bool) -> dict[str, Value]:
    """The head's width and how much of it turns; sliding layers may have widths of their own."""
    turned, key = (_width(header, name, local=local) for name in ("rope.dimension_count", "attention.key_length"))
    sections = header.value("rope.dimension_sections")
    if turned is None and sections is not None:
        turned = Value(2 * sum(_section_sizes(sections)), "rewritten", sections.key)
    if header.type.name in ("deepseek2", "deepseek32", "glm-dsa") and turned is not None:
        return {"dim": turned}
    width = key
    if width is None and header.count("embedding_length") is not None:
        whole_width, heads = header.wanted("embedding_length"), header.wanted("attention.head_count")
        if whole_width.value % heads.value:
            detail = f"embedding_length {whole_width.value} is no multiple of attention.head_count {heads.value}"
            raise Refusal(heads.key, "conflict", detail)
        width = whole_width.replaced(whole_width.value // heads.value)
    if width is None and turned is None:
        header.wanted("rope.dimension_count")
    width = width or turned
    assert width is not None
    if turned is not None and turned.value > width.value:
        detail = f"{turned.key[1:]} is {turned.value}, and a head has {width.value} channels ({width.key[1:]})"
        raise Refusal(turned.key, "conflict", detail)
    if turned is None or turned.value == width.value:
        return {"dim": width}
    return {"dim": width, "rotary_dim": turned}


def _width(header: Header, name: str, *, local: bool) -> Value | None:
    own = header.count(f"{name}_swa") if local else None
    return header.count(name) if own is None else own


def _section_sizes(sections: Value) -> list[int]:
    if not isinstance(sections.value, list) or not 1 <= len(sections.value) <= 4:
        raise Refusal(sections.key, "type", "rope.dimension_sections must be a list of one to four pairs")
    return [whole(Value(each, sections.source, sections.key), 0, 4096).value for each in sections.value]


def _scaling(header: Header, width: int, facts: dict[str, Any], notes: list[str]) -> dict[str, Value]:
    """ggml's freq_scale, ramp and factors in our words."""
    given = header.value("rope.scaling.type")
    factor = header.real("rope.scaling.factor") or header.real("rope.scale_linear")
    said = given.value if given is not None else ("linear" if factor is not None and factor.value != 1 else "none")
    if said not in ("none", "linear", "yarn", "longrope"):
        place = given.key if given is not None else header.where
        raise Refusal(place, "unknown", f"rope.scaling.type is {echo(said)}; none, linear, yarn or longrope is needed")
    kind_of = given or header.code(said)
    amplitude = _amplitude(header)
    freqs = header.document.get("rope_freqs.weight")
    if isinstance(freqs, list):
        divisors = Value(freqs, "config", header.at("rope_freqs.weight"))
        return {"rope_type": divisors.replaced("divisors"), "divisors": divisors, **amplitude}
    notes += _tensors(header, said)
    if said == "linear" and factor is not None:
        return {"rope_type": kind_of.replaced("linear"), "factor": factor}
    if said == "yarn":
        return _yarn(header, kind_of, factor, facts)
    if amplitude:
        louder = amplitude["attention_factor"]
        ones = louder.replaced([1.0] * (width // 2))
        return {"rope_type": louder.replaced("divisors"), "divisors": ones, **amplitude}
    return {"rope_type": kind_of.replaced("default")}


def _amplitude(header: Header) -> dict[str, Value]:
    """`rope.scaling.attn_factor`, where it changes something."""
    found = header.real("rope.scaling.attn_factor")
    return {} if found is None or found.value == 1 else {"attention_factor": found}


def _tensors(header: Header, said: str) -> list[str]:
    """Half of some scalings is in tensors of the file, of which its metadata says nothing."""
    if any(str(key).startswith("rope_freqs") for key in header.document):
        return ["the file has a tensor rope_freqs: give its values as rope_freqs.weight, a list"]
    if said == "longrope" or (said == "none" and header.type.name in FACTORED):
        return [
            "frequencies are those before the tensors rope_factors_short and rope_factors_long, where the file has "
            "them: give the values that count as rope_freqs.weight, a list"
        ]
    if said == "none" and header.type.name in DIVIDED:
        return [
            "frequencies are those before the tensor rope_freqs, where the file has one, as those of Llama 3.1 and "
            "later do: give its values as rope_freqs.weight, a list"
        ]
    return []


def _yarn(header: Header, kind_of: Value, factor: Value | None, facts: dict[str, Any]) -> dict[str, Value]:
    if factor is None:
        full = f"{header.type.name}.rope.scaling.factor"
        raise Refusal(header.at(full), "missing", f"{full} is missing: yarn cannot do without it")
    if factor.value < 1:
        raise Refusal(factor.key, "out_of_range", f"the factor is {echo(factor.value)}; 1 or more would do", limit=1)
    found = {"rope_type": kind_of, "factor": factor, "truncate": header.code(True)}
    original = header.count("rope.scaling.original_context_length") or header.count("context_length")
    if original is not None:
        found["original_max_position_embeddings"] = original
    for ours, theirs in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
        given = header.real(f"rope.scaling.{theirs}")
        found[ours] = given if given is not None else header.code({"beta_fast": 32.0, "beta_slow": 1.0}[ours])
    multiplier = header.real("rope.scaling.yarn_log_multiplier")
    if multiplier is not None and multiplier.value:
        # In float64, operation by operation: a power may differ between processors, a product does not.
        magnitude = 1 + multiplier.value * _logarithm(factor.value)
        facts["softmax_factor"] = magnitude * magnitude
        found["attention_factor"] = multiplier.replaced(1.0)
        return found
    given = header.real("rope.scaling.attn_factor")
    if given is not None and given.value != 1:
        found["attention_factor"] = given.replaced(given.value * (1 + 0.1 * _logarithm(factor.value)))
    return found


def _logarithm(factor: float) -> float:
    """ln, rounded once: the same on every machine."""
    return float(Reals.of([factor]).logarithm().rounded()[0])
