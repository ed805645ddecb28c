"""M-RoPE: which axis turns which pair of a text model that sees pictures."""

from collections.abc import Mapping
from typing import Any

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.plan import Address, Value
from service.models.reading import Reading
from service.models.rope_keys import Block

SHARED = ("dim", "base", "pairing", "arithmetic")
EXAMPLE_GRID = "2,3,4"
# Architectures of llama.cpp that turn by one axis where the file has no sections.
OPTIONAL = ("glm4", "glm4moe")


def assumed(rule: Mapping[str, Any], width: int) -> Any:
    """The sections that the class has where the file states none: `halves` are two of all pairs, whatever the width."""
    own = rule.get("sections")
    return [width // 4] * 2 if own == "halves" else own


def sections_address(
    reading: Reading, block: Block, parameters: Mapping[str, Value], context: Context
) -> tuple[dict[str, Address], list[str]]:
    """The tables for positions on several axes; of text all axes are equal, and `tables` says the same."""
    rule: Mapping[str, Any] | None = reading.type.rule.get("mrope")
    if rule is None or block.rope_type != "default" or "frequencies" in parameters:
        return {}, []
    stated = block.keys.get("mrope_section") or block.keys.get("xdrope_section")
    if stated is None and (reading.llama_cpp or {}).get("architecture") in OPTIONAL:
        return {}, []
    own = rule.get("sections")
    if stated is None and own is None:
        return {}, []
    found = {name: value for name, value in parameters.items() if name in SHARED}
    width = (
        int(parameters["dim"].value * float(parameters["partial_rotary_factor"].value))
        if "partial_rotary_factor" in parameters
        else parameters["rotary_dim"].value
        if "rotary_dim" in parameters and reading.llama_cpp is not None
        else None
    )
    own = assumed(rule, width or parameters["dim"].value)
    sections = stated or Value(own, "class default", reading.at("rope_parameters") + "/mrope_section")
    if width is not None:
        found["rotary_dim"] = parameters.get("partial_rotary_factor", parameters["dim"]).replaced(width)
    found["sections"] = sections
    convention = {name: str(value) for name, value in rule.items() if name not in ("sections",)}
    if context.options.preset == "llama.cpp" and convention.get("section_rule") == "interleaved":
        convention["section_rule"] = "interleaved-ggml"
        found["sections"] = sections.replaced([*sections.value, 0])
    convention, notes = _woven(convention, block.keys.get("mrope_interleaved"), context)
    grid = EXAMPLE_GRID if len(found["sections"].value) == 3 else ",".join(["2"] * len(found["sections"].value))
    try:
        return {"axes": ask("encodings", "rope-axes", found, **convention, grid=grid).address()}, notes
    except Refusal as error:
        if sections.source == "config":
            raise
        detail = f"the sections that the class assumes do not fit: {error}; state mrope_section"
        if reading.type.rule["mrope"].get("section_rule") != "interleaved":
            # It splits the tables by them, whatever the positions; what is interleaved is cut off.
            raise Refusal(sections.key, "conflict", detail) from None
        return {}, [detail]


def _woven(convention: dict[str, str], flag: Value | None, context: Context) -> tuple[dict[str, str], list[str]]:
    """Whether the sections are woven, which vLLM takes from the flag and classes of transformers have built in."""
    built_in = convention.get("section_rule", "chunked")
    asked = "interleaved" if flag is not None and flag.value else "chunked"
    if built_in not in ("interleaved", "chunked") or asked == built_in:
        return convention, []
    if context.options.preset == "vllm":
        stated = f"{flag.key} is {str(flag.value).lower()}" if flag is not None else "mrope_interleaved is not stated"
        return convention | {"section_rule": asked}, [
            f"{stated}: vLLM has the sections {asked}, transformers {built_in}"
        ]
    if flag is None:
        return convention, []
    return convention, [f"{flag.key} has no effect: the class has the sections {built_in}"]
