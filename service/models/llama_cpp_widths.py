"""How wide heads are in the files of llama.cpp's converter, and how much of them turns: what it writes of either."""

from dataclasses import replace
from typing import Any

from service.models.gguf_architectures import INTERLEAVED, SECTIONS
from service.models.nearest import echo
from service.models.plan import Value
from service.models.reading import Reading, numeric
from service.models.rope_keys import Block
from service.models.rope_parameters import head_width

# Whose converter writes sections where the file states none.
ASSUMED_SECTIONS = ("qwen35", "qwen35moe", "qwen4exp")
SHARE = "partial_rotary_factor"


def widths(reading: Reading, block: Block, label: str | None, notes: list[str]) -> Block:
    """The block with the width that turns as the file says it: `rotary_dim`, and no share of a head."""
    row = reading.llama_cpp or {}
    _say_of_heads(reading, label, notes)
    _say_of_sections(reading, block, notes)
    how = row.get("share")
    if how == "class" or block.rope_type == "proportional":
        return block
    stated = block.keys.get(SHARE)
    keys = {name: value for name, value in block.keys.items() if name != SHARE}
    if how is None:
        if stated is not None and stated.value != 1:
            said = f"llama.cpp's converter writes no {SHARE} for {reading.type.name}: whole heads turn in its files"
            notes.append(f"{stated.key} is {echo(stated.value)}; {said}")
        return replace(block, keys=keys)
    share = stated or Value(row.get("assumed", 1.0), "class default", f"{reading.where}/model_type")
    if stated is None and share.value != 1:
        notes.append(f"llama.cpp's converter takes a {SHARE} of {share.value} where {reading.type.name} states none")
    turned = _part(reading, share, label, how)
    if turned != head_width(reading, label).value:
        keys["rotary_dim"] = share.replaced(turned) if stated else Value(turned, share.source, share.key)
    return replace(block, keys=keys)


def _part(reading: Reading, share: Value, label: str | None, how: str) -> int:
    """As the converter computes it: of the head, or of what the heads share of the whole."""
    part = numeric(share).value
    if how == "head":
        return int(part * head_width(reading, label).value)
    width = reading.needed(reading.type.rule.get("width", "hidden_size"))
    return int(part * width.value) // int(reading.needed("num_attention_heads").value)


def _say_of_heads(reading: Reading, label: str | None, notes: list[str]) -> None:
    """A width of a head that is in the configuration and not in the file."""
    given: Any = reading.document.get("head_dim")
    if given is None or (reading.llama_cpp or {}).get("head") != "shared":
        return
    width = head_width(reading, label)
    if given != width.value:
        notes.append(
            f"{reading.at('head_dim')} is {echo(given)}; llama.cpp's converter writes no head_dim for "
            f"{reading.type.name}: its files have heads of {width.value} channels, and others do not fit"
        )


def _say_of_sections(reading: Reading, block: Block, notes: list[str]) -> None:
    if not {"mrope_section", "xdrope_section"} & set(block.keys):
        notes += of_sections((reading.llama_cpp or {}).get("architecture"))


def of_sections(architecture: str | None) -> list[str]:
    """What to say of a block without sections, if the file of an architecture must have them: the converter takes them
    from the block alone."""
    if architecture not in (*SECTIONS, *INTERLEAVED) or architecture in ASSUMED_SECTIONS:
        return []
    return [
        f"the block has no mrope_section: llama.cpp's converter writes no rope.dimension_sections then, without which "
        f"llama.cpp loads no {architecture}; the plan has the sections that the class assumes"
    ]
