"""ggml's freq_scale, ramp, divisors and amplitudes in the words of this service, as llama.cpp sets them up."""

from typing import Any

from service.engine.errors import Refusal
from service.engine.numbers.reals import Reals
from service.models.gguf_architectures import DIVIDED, FACTORED, READ_BY, RESCALED
from service.models.gguf_header import Header
from service.models.gguf_layers import Kind
from service.models.nearest import echo
from service.models.plan import Value
from service.models.reading import numeric

KINDS = ("none", "linear", "yarn", "longrope")


def scaling(header: Header, kind: Kind, width: int, facts: dict[str, Any], notes: list[str]) -> dict[str, Value]:
    """The parameters of the scaling of a kind of layers."""
    said, kind_of, factor = _said(header)
    if not kind.scaled and not kind.compressed:
        return _unscaled(header, kind, width, factor if said == "yarn" else None)
    if kind.compressed and said == "yarn":
        # Its code takes the amplitude of YaRN away, whatever the header says.
        return _yarn(header, kind_of, factor, facts) | {"attention_factor": header.code(1.0)}
    freqs = header.document.get("rope_freqs.weight")
    if isinstance(freqs, list):
        return _divided(header, freqs, said, factor)
    notes += _tensors(header, said)
    return _yarn(header, kind_of, factor, facts) if said == "yarn" else _linear(header, kind_of, factor, width, facts)


def _linear(
    header: Header, kind_of: Value, factor: Value | None, width: int, facts: dict[str, Any]
) -> dict[str, Value]:
    """No scaling, or one by a factor, which LongRoPE may have too; `none` takes none."""
    divided = factor is not None and kind_of.value != "none" and (factor.value != 1 or kind_of.value == "linear")
    louder = _amplitude(header)
    if not divided or factor is None:
        plain = {"rope_type": kind_of.replaced("default")}
        return plain if louder is None else _louder(louder, [1.0] * (width // 2))
    _rescaled(header, factor, (1.0 if louder is None else louder.value) * (1 + _tenth_of_log(factor)), facts)
    if louder is not None:
        return _louder(louder, [float(factor.value)] * (width // 2))
    return {"rope_type": kind_of.replaced("linear"), "factor": factor}


def _said(header: Header) -> tuple[str, Value, Value | None]:
    """The kind of scaling that the header names, and its factor; llama.cpp takes a factor without a kind as linear,
    and one of 0 as none."""
    given = header.value("rope.scaling.type")
    factor = header.real("rope.scaling.factor") or header.real("rope.scale_linear")
    factor = None if factor is None or factor.value == 0 else factor
    if factor is not None and factor.value < 0:
        raise Refusal(factor.key, "out_of_range", f"the factor is {echo(factor.value)}; more than 0 would do", limit=0)
    said = given.value if given is not None else ("linear" if factor is not None and factor.value != 1 else "none")
    if said not in KINDS:
        place = header.where if given is None else given.key
        raise Refusal(place, "unknown", f"rope.scaling.type is {echo(said)}; none, linear, yarn or longrope is needed")
    return said, given or header.code(said), factor


def _amplitude(header: Header) -> Value | None:
    """`rope.scaling.attn_factor`, where it changes something."""
    found = header.real("rope.scaling.attn_factor")
    return None if found is None or found.value == 1 else found


def _louder(amplitude: Value, divisors: list[float]) -> dict[str, Value]:
    """Tables of an amplitude, which only pairs that are divided have here."""
    return {
        "rope_type": amplitude.replaced("divisors"),
        "divisors": amplitude.replaced(divisors),
        "attention_factor": amplitude,
    }


def _unscaled(header: Header, kind: Kind, width: int, factor: Value | None) -> dict[str, Value]:
    """Sliding layers that scalings pass by; most keep the amplitude, and of YaRN what was to cancel ggml's own."""
    louder = header.real("rope.scaling.attn_factor")
    pattern = kind.pattern
    if pattern is not None and pattern.loud and factor is not None and factor.value > 1:
        source = louder or factor
        amplitude = (1.0 if louder is None else louder.value) / (1 + 0.1 * _logarithm(factor.value))
        return _louder(source.replaced(amplitude), [1.0] * (width // 2))
    if pattern is not None and pattern.loud and louder is not None and louder.value != 1:
        return _louder(louder, [1.0] * (width // 2))
    return {"rope_type": header.code("default")}


def _divided(header: Header, freqs: list[Any], said: str, factor: Value | None) -> dict[str, Value]:
    """The divisors of a file's tensor, over which a linear factor comes."""
    place = header.at("rope_freqs.weight")
    if said == "yarn":
        detail = "rope_freqs.weight beside rope.scaling.type yarn: no scheme here has both; leave one of them out"
        raise Refusal(place, "conflict", detail)
    louder = _amplitude(header)
    found = Value([1e30 if each == STILL_IN_FLOAT32 else each for each in freqs], "config", place)
    if said != "none" and factor is not None and factor.value != 1:
        numbers = [numeric(Value(each, "config", f"{place}/{index}")) for index, each in enumerate(freqs)]
        found = found.replaced([float(each.value) * float(factor.value) for each in numbers])
    more = {} if louder is None else {"attention_factor": louder}
    return {"rope_type": found.replaced("divisors"), "divisors": found, **more}


# What Gemma 4's files divide pairs by that do not turn, 1e30, as float32 has it: the same number there.
STILL_IN_FLOAT32 = 1.0000000150474662e30


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
    defaults = {"beta_fast": 8.0 if header.type.name == "grok" else 32.0, "beta_slow": 1.0}
    for ours, default in defaults.items():
        given = header.real(f"rope.scaling.yarn_{ours}") if reads(header, f"scaling.yarn_{ours}") else None
        found[ours] = header.code(default) if given is None else given
    _refuse_half_a_ramp(header)
    return found | _loudness(header, factor, facts)


def reads(header: Header, key: str) -> bool:
    """Whether llama.cpp reads a key for this architecture."""
    return header.type.name in READ_BY[key]


def _refuse_half_a_ramp(header: Header) -> None:
    """Grok's files say how much of the ramp counts; all of it does in those that there are."""
    share = header.real("rope.scaling.yarn_ext_factor") if reads(header, "scaling.yarn_ext_factor") else None
    if share is not None and share.value != 1:
        detail = f"rope.scaling.yarn_ext_factor is {echo(share.value)}: only a whole ramp, 1, can be answered"
        raise Refusal(share.key, "out_of_range", detail)


def _loudness(header: Header, factor: Value, facts: dict[str, Any]) -> dict[str, Value]:
    """The amplitude: what llama.cpp sets before ggml multiplies by 1 + ln(factor) / 10, and after."""
    louder = _amplitude(header)
    given = 1.0 if louder is None else louder.value
    multiplier = header.real("rope.scaling.yarn_log_multiplier")
    if multiplier is not None and multiplier.value < 0:
        detail = f"rope.scaling.yarn_log_multiplier is {echo(multiplier.value)}; 0 or more would do"
        raise Refusal(multiplier.key, "out_of_range", detail, limit=0)
    if multiplier is None or not multiplier.value or not reads(header, "scaling.yarn_log_multiplier"):
        amplitude = given * (1 + _tenth_of_log(factor))
        _rescaled(header, factor, amplitude, facts)
        return {} if louder is None else {"attention_factor": louder.replaced(amplitude)}
    amplitude = given * _ratio(header, multiplier.value, factor.value)
    _rescaled(header, factor, amplitude, facts)
    return {"attention_factor": (louder or multiplier).replaced(amplitude)}


def _ratio(header: Header, multiplier: float, factor: float) -> float:
    """mscale over mscale_all_dim, the former 1 but for DeepSeek V2, where both are the same."""
    tenth = _tenth(header, multiplier)
    if header.type.name == "deepseek2" or tenth == 0.1:
        return 1.0
    return (1 + 0.1 * _logarithm(factor)) / (1 + tenth * _logarithm(factor))


def _tenth(header: Header, multiplier: float) -> float:
    """A tenth of mscale_all_dim: what DeepSeek's files have; Mistral's have the whole."""
    return 0.1 * multiplier if header.type.name == "mistral3" else multiplier


def _rescaled(header: Header, factor: Value, amplitude: float, facts: dict[str, Any]) -> None:
    """The factor on the scores of DeepSeek's kin, of any scaling by a factor."""
    if header.type.name not in RESCALED or factor.value <= 1:
        return
    multiplier = header.real("rope.scaling.yarn_log_multiplier") if reads(header, YARN_LOG) else None
    # In float64, operation by operation: a power may differ between processors, a product does not.
    own = 1 + (0.0 if multiplier is None else multiplier.value) * _logarithm(factor.value)
    facts["softmax_factor"] = (amplitude * own) * (amplitude * own)


YARN_LOG = "scaling.yarn_log_multiplier"


def _tenth_of_log(factor: Value) -> float:
    return 0.1 * _logarithm(factor.value)


def _logarithm(factor: float) -> float:
    """ln, rounded once: the same on every machine."""
    return float(Reals.of([factor]).logarithm().rounded()[0])
