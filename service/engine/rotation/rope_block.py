"""Hugging Face's `rope_parameters` (formerly `rope_scaling`): a JSON object that stands for RoPE's parameters."""

from collections.abc import Mapping
from typing import Any

from service.engine.errors import Refusal
from service.engine.pasted import Pasted
from service.engine.rotation.scaling import PARAMETERS

# Other spellings of a type, and parameters that one implies.
SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "su": {"rope_type": "longrope"},
    "mrope": {"rope_type": "default"},
    "xdrope": {"rope_type": "dynamic"},
    "deepseek_yarn": {"rope_type": "yarn", "mscale_rule": "each"},
}
RENAMED: Mapping[str, str] = {"type": "rope_type", "rope_theta": "base"}
# Keys about other things than frequencies: which axis a pair follows, and a factor on queries.
SECTIONS = ("mrope_section", "xdrope_section")
MOST_SECTIONS = 8
TRUTHS = ("mrope_interleaved", "interleaved")
OF_AXES: Mapping[str, str] = {
    "mrope_section": "sections",
    "xdrope_section": "sections",
    "mrope_interleaved": "section_rule",
}
# What is not asked within the object of a type of layer, where a parameter says so.
OUTERMOST: Mapping[str, tuple[str, str]] = {"truncate": ("truncate_rule", "beside-layers")}
ASIDE = (*OF_AXES, "interleaved", "llama_4_scaling_beta")
LENGTHS = ("original_max_position_embeddings", "max_position_embeddings", "seq_len")
LOCAL = "rope_local_base_freq"
KEYS = ("rope_type", *RENAMED, "partial_rotary_factor", *PARAMETERS, *ASIDE)


def parameters_of_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """Our parameters for a flat block; null means left out, as in a `config.json`.

    >>> parameters_of_block({"type": "linear", "factor": 2, "rope_theta": 1e6, "attention_factor": None})
    {'rope_type': 'linear', 'factor': 2, 'base': 1000000.0}
    """
    given = {key: value for key, value in block.items() if value is not None and key not in ASIDE}
    return _type(given) | {
        RENAMED.get(key, key): value for key, value in given.items() if key not in ("rope_type", "type")
    }


def _type(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the block says of its type, in either spelling; an alpha makes `dynamic` NTK-aware, as in HunYuan."""
    spelled = {key: _spelling(given[key]) for key in ("rope_type", "type") if key in given}
    named = list(spelled.values())
    if not named:
        _refuse_scaling_of_no_type(given)
    if len(named) == 2 and named[0] != named[1]:
        raise Refusal(
            "type",
            "conflict",
            f"rope_type is {given['rope_type']} and type is {given['type']}; they say the same thing",
        )
    found = named[0] if named else {}
    return {"rope_type": "ntk_alpha"} if found.get("rope_type") == "dynamic" and given.get("alpha") else dict(found)


def _refuse_scaling_of_no_type(given: Mapping[str, Any]) -> None:
    """A factor has no meaning of its own; lengths describe a model, scaled or not, and what stands beside the objects
    of types of layer is said of those that are scaled."""
    idle = next((key for key in given if key in PARAMETERS and key not in (*LENGTHS, *OUTERMOST)), None)
    if idle is not None:
        detail = f"{idle} is a part of a scaling, and neither rope_type nor type says which: add one, or leave it out"
        raise Refusal(idle, "conflict", detail)


def _spelling(name: object) -> Mapping[str, object]:
    return SPELLINGS.get(name, {"rope_type": name}) if isinstance(name, str) else {"rope_type": name}


def _spread(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gemma 3's older spelling: a base for local layers beside what holds for global ones alone.

    >>> _spread({"type": "linear", "factor": 8, "rope_theta": 1e6, "rope_local_base_freq": 1e4})["sliding_attention"]
    {'rope_type': 'default', 'rope_theta': 10000.0}
    """
    if block.get(LOCAL) is None:
        return {key: value for key, value in block.items() if key != LOCAL}
    own = {key: value for key, value in block.items() if key != LOCAL}
    return {"full_attention": own, "sliding_attention": {"rope_type": "default", "rope_theta": block[LOCAL]}}


def _of_one_axis(block: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a rotation on one axis; what the block says of axes must be that, though nothing follows from it.

    >>> _of_one_axis({"type": "mrope", "mrope_section": [2, 1, 1]})
    {'rope_type': 'default'}
    """
    for key in SECTIONS:
        if block.get(key) is not None and not _is_sections(block[key]):
            detail = f"{key} must be a list of whole numbers, the pairs of each axis, such as [16,24,24]"
            raise Refusal(key, "type", detail)
    for key in TRUTHS:
        if block.get(key) is not None and not isinstance(block[key], bool):
            raise Refusal(key, "truth", f"{key}: true or false is needed")
    return parameters_of_block(block)


def _is_sections(value: object) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_SECTIONS:
        return False
    return all(type(each) is int and each >= 0 for each in value)


def _sections_fit(block: Mapping[str, Any], width: int) -> None:
    """Sections are of the pairs that turn, all of them."""
    for key in SECTIONS:
        if block.get(key) is not None and sum(block[key]) != width // 2:
            detail = f"{key} sums to {sum(block[key])}, and {width // 2} pairs turn: they must be equal"
            raise Refusal(key, "sum", detail, limit=width // 2, requested=sum(block[key]))


ROPE_BLOCK = Pasted(
    names=("rope_parameters", "rope_scaling"),
    description="The block of that name in a Hugging Face `config.json`, pasted as it is: `type` or `rope_type`, "
    "`rope_theta` inside or as `base` in the query. `su` is `longrope`, `dynamic` with an `alpha` is `ntk_alpha`, "
    f"null is left out, and {', '.join(ASIDE)} decide nothing about frequencies. A block that holds one for each type "
    "of layer is answered for all of them, or for the `layer_type` in the query; `rope_local_base_freq` is the base of "
    "`sliding_attention`, which is not scaled.",
    keys=KEYS,
    renamed=RENAMED,
    parameters=_of_one_axis,
    spread=_spread,
    fits=_sections_fit,
    outermost=OUTERMOST,
)


def _axes_of_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """The same with what the block says of axes.

    >>> _axes_of_block({"rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True})
    {'rope_type': 'default', 'sections': [2, 1, 1], 'section_rule': 'interleaved'}
    """
    given = {key: value for key, value in block.items() if value is not None}
    sections = {key: given[key] for key in SECTIONS if key in given}
    if len(set(map(repr, sections.values()))) > 1:
        detail = "mrope_section and xdrope_section say the same thing, and they differ: give one of them"
        raise Refusal("xdrope_section", "conflict", detail)
    found: dict[str, Any] = {}
    if sections:
        found["sections"] = next(iter(sections.values()))
    if "xdrope_section" in sections:
        found["section_rule"] = "doubled"
    woven = given.get("mrope_interleaved")
    if woven is not None:
        if not isinstance(woven, bool):
            raise Refusal("mrope_interleaved", "truth", "mrope_interleaved: true or false is needed")
        found["section_rule"] = "interleaved" if woven else "chunked"
    axial = {key: "default" for key in ("rope_type", "type") if given.get(key) == "axial"}
    return parameters_of_block({**block, **axial}) | found


AXES_BLOCK = Pasted(
    names=ROPE_BLOCK.names,
    description="The block of that name in a Hugging Face `config.json`, pasted as it is: `mrope_section` is "
    "`sections`, `mrope_interleaved` is `section_rule=interleaved` or `chunked`, HunYuan's older `xdrope_section` is "
    "sections that are `doubled`; `mrope` and `axial` are no scaling. The rest is as with `encodings/rope`.",
    keys=tuple(key for key in KEYS if key != "frequencies"),
    renamed={**RENAMED, **OF_AXES},
    parameters=_axes_of_block,
    outermost=OUTERMOST,
)
