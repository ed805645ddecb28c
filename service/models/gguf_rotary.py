"""Rotary attention of a GGUF header: widths, bases, sections, scalings and layers as llama.cpp has them."""

from collections.abc import Sequence
from typing import Any

from service.engine.errors import Refusal
from service.engine.numbers.reals import Reals
from service.models.addresses import ask
from service.models.context import Context
from service.models.gguf_architectures import DEFAULT_BASE, EVERY, INTERLEAVED, NORMAL, UNTURNED
from service.models.gguf_header import Header, use_of
from service.models.nearest import echo
from service.models.plan import Use, Value, Window
from service.models.reading import whole


def turning(header: Header, context: Context) -> list[Use]:
    """Rotary attention: one use, or two where the architecture has two kinds of layers."""
    name = header.type.name
    number, every = header.count("block_count"), EVERY.get(name)
    layers = None if number is None else range(number.value)
    if every is None:
        return [_rotary(header, context, None, _listed(layers), scaled=True)]
    rare = _listed(layers, lambda layer: (layer + 1) % every == 0)
    often = _listed(layers, lambda layer: (layer + 1) % every != 0)
    if name in UNTURNED:
        label = {"llama4": "chunked_attention", "cohere2": "sliding_attention"}.get(name)
        said = ("these layers have no positional encoding: llama.cpp has it in its code, not in the header",)
        return [
            _rotary(header, context, label, often, scaled=True),
            use_of(header, "none", layer_type=label and "full_attention", layers=rare, notes=said),
        ]
    return [
        _rotary(header, context, "full_attention", rare, scaled=True),
        _rotary(header, context, "sliding_attention", often, scaled=False),
    ]


def _listed(layers: Sequence[int] | None, which: Any = lambda _layer: True) -> tuple[int, ...] | None:
    return None if layers is None else tuple(filter(which, layers))


def _rotary(header: Header, context: Context, label: str | None, layers: tuple[int, ...] | None, scaled: bool) -> Use:
    name = header.type.name
    parameters = _widths(header)
    turned = parameters.get("rotary_dim", parameters["dim"])
    base = header.real("rope.freq_base") or header.code(DEFAULT_BASE)
    parameters["base"] = base if scaled else header.code(DEFAULT_BASE)
    facts: dict[str, Any] = {}
    notes: list[str] = []
    parameters |= _scaling(header, turned.value, facts, notes) if scaled else {"rope_type": header.code("default")}
    normal = name in NORMAL
    parameters["pairing"] = header.code("interleaved" if normal else "half")
    parameters["arithmetic"] = header.code("ggml")
    if normal and name not in ("chatglm", "glm4", "command-r", "cohere2"):
        notes.append(
            "neighbours turn together: the converter permutes the rows of the projections of half-turning models"
        )
    sections = header.value("rope.dimension_sections")
    if sections is not None:
        facts["mrope_section"] = sections.value
        facts["section_rule"] = "interleaved-ggml" if name in INTERLEAVED else "chunked"
    tables = ask("encodings", "rope", parameters, length=context.length)
    plain = {key: value for key, value in parameters.items() if key != "pairing"}
    rotation = {key: value for key, value in parameters.items() if key != "dim"}
    window = _window(header, label)
    addresses = {
        "tables": tables.address(),
        "frequencies": ask("encodings", "rope", plain, output="frequencies").address(),
        "rotation": ask("apply", "rope", rotation).address(),
    }
    return use_of(
        header,
        "rope",
        scheme=("encodings", "rope"),
        layer_type=label,
        layers=layers,
        parameters=parameters,
        facts={**tables.facts(), **facts},
        notes=tuple(notes),
        window=window,
        addresses=addresses,
    )


def _window(header: Header, label: str | None) -> Window | None:
    if label == "chunked_attention":
        size = header.count("attention.chunk_size")
        return None if size is None else Window("chunked", size.value)
    size = header.count("attention.sliding_window") if label == "sliding_attention" else None
    return None if size is None else Window("sliding", size.value)


def _widths(header: Header) -> dict[str, Value]:
    """The head's width and how much of it turns."""
    turned, key = header.count("rope.dimension_count"), header.count("attention.key_length")
    sections = header.value("rope.dimension_sections")
    if turned is None and sections is not None:
        turned = Value(2 * sum(_section_sizes(sections)), "rewritten", sections.key)
    if header.type.name in ("deepseek2", "glm-dsa") and turned is not None:
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
    if turned is None or turned.value >= width.value:
        return {"dim": turned or width}
    return {"dim": width, "rotary_dim": turned}


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
    freqs = header.document.get("rope_freqs.weight")
    if isinstance(freqs, list):
        divisors = Value(freqs, "config", header.at("rope_freqs.weight"))
        return {"rope_type": divisors.replaced("divisors"), "divisors": divisors}
    if any(str(key).startswith("rope_freqs") for key in header.document):
        notes.append("the file has a tensor rope_freqs: give its values as rope_freqs.weight, a list")
    if said == "linear" and factor is not None:
        return {"rope_type": kind_of.replaced("linear"), "factor": factor}
    if said == "yarn":
        return _yarn(header, kind_of, factor, facts)
    if said == "longrope":
        notes.append("frequencies are those before the tensors rope_factors_short and rope_factors_long")
    amplitude = header.real("rope.scaling.attn_factor")
    if amplitude is not None and amplitude.value != 1:
        ones = header.code([1.0] * (width // 2))
        return {"rope_type": amplitude.replaced("divisors"), "divisors": ones, "attention_factor": amplitude}
    return {"rope_type": kind_of.replaced("default")}


def _yarn(header: Header, kind_of: Value, factor: Value | None, facts: dict[str, Any]) -> dict[str, Value]:
    if factor is None:
        full = f"{header.type.name}.rope.scaling.factor"
        raise Refusal(header.at(full), "missing", f"{full} is missing: yarn cannot do without it")
    found = {"rope_type": kind_of, "factor": factor, "truncate": header.code(True)}
    original = header.count("rope.scaling.original_context_length") or header.count("context_length")
    if original is not None:
        found["original_max_position_embeddings"] = original
    for ours, theirs in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
        given = header.real(f"rope.scaling.{theirs}")
        found[ours] = given if given is not None else header.code({"beta_fast": 32.0, "beta_slow": 1.0}[ours])
    multiplier = header.real("rope.scaling.yarn_log_multiplier")
    if multiplier is not None and multiplier.value:
        # A ratio of logarithms and no answer of the engine: a fact of the plan, given in float64.
        facts["softmax_factor"] = (1 + multiplier.value * _logarithm(factor.value)) ** 2
        found["attention_factor"] = multiplier.replaced(1.0)
        return found
    given = header.real("rope.scaling.attn_factor")
    if given is not None and given.value != 1:
        found["attention_factor"] = given.replaced(given.value * (1 + 0.1 * _logarithm(factor.value)))
    return found


def _logarithm(factor: float) -> float:
    """ln, rounded once: the same on every machine."""
    return float(Reals.of([factor]).logarithm().rounded()[0])
