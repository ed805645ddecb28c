"""What llama.cpp makes of a configuration: its converter writes a header, and drops what it has no key for.

A block of RoPE becomes the one that the header of the converted file says, by the code that reads headers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from service.models.gguf_header import Header
from service.models.gguf_layers import Kind
from service.models.gguf_patterns import PATTERNS, Pattern
from service.models.gguf_scaling import scaling
from service.models.known import ModelType, known, llama_cpp, model_type
from service.models.llama_cpp_widths import of_sections, widths
from service.models.plan import Value
from service.models.reading import Reading
from service.models.rope_keys import Block
from service.models.rope_parameters import head_width

CARRIED = ("linear", "yarn")
# Keys of a block, and those of a header that the converter writes them to.
WRITTEN = {
    "factor": "factor",
    "original_max_position_embeddings": "original_context_length",
    "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
    "mscale_all_dim": "yarn_log_multiplier",
}
# What the converter writes of a LongRoPE, and llama.cpp reads: no factor, and no amplitudes.
OF_LONGROPE = (
    "short_factor",
    "long_factor",
    "original_max_position_embeddings",
    "rope_theta",
    "rotary_dim",
)


@dataclass(frozen=True, slots=True)
class Converted:
    """A block as the converted file has it, and what is to be said of it."""

    block: Block
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def pattern_of(reading: Reading) -> Pattern | None:
    """How kinds of layers take turns in the architecture of the converted file; None where none slide there."""
    row = reading.llama_cpp
    pattern = PATTERNS.get(row["architecture"]) if row is not None else None
    stated = reading.counted()
    if (
        pattern is None
        or (row or {}).get("windowless")
        or (pattern.depth is not None and stated is not None and stated.value != pattern.depth)
    ):
        return None
    return pattern


def without_windows(reading: Reading) -> bool:
    """Whether no layer of the converted file's model slides, whatever the configuration says."""
    return reading.llama_cpp is not None and pattern_of(reading) is None


def converted(reading: Reading, block: Block, label: str | None, full: Block | None) -> Converted:
    """The block of a kind of layers as llama.cpp has it; `full`: that of the layers that see everything."""
    row = reading.llama_cpp
    if row is None:
        return Converted(block)
    pattern = pattern_of(reading)
    slides = label in ("sliding_attention", "chunked_attention") and pattern is not None
    notes: list[str] = []
    theta = full.keys.get("rope_theta") if full is not None else None
    if slides and pattern is not None and pattern.base == "full" and theta is not None:
        if theta.value != block.value("rope_theta"):
            notes.append(f"llama.cpp turns sliding layers of {row['architecture']} by the base of the others too")
        block = replace(block, keys={**block.keys, "rope_theta": theta})
    if slides and full is not None and full.rope_type != "proportional":
        block = _scaled_as(block, full)
    block = widths(reading, block, label, notes)
    block = _written(reading, block, row, notes)
    kept = block.rope_type in row.get("carried", CARRIED)
    if kept and block.rope_type == "longrope":
        return Converted(_longrope(block, row, notes), notes=tuple(notes))
    if kept and block.rope_type == "llama3":
        unscaled = slides and pattern is not None and not pattern.scaled
        return Converted(_plain(block) if unscaled else block, notes=tuple(notes))
    if block.rope_type == "proportional":
        return Converted(_proportional(reading, block, label), notes=tuple(notes))
    if not kept:
        return Converted(_dropped(reading, block, notes), notes=tuple(notes))
    return _scaled(reading, block, row, Kind(label if slides else None, None, pattern=pattern), notes)


def _scaled_as(block: Block, full: Block) -> Block:
    """The block of layers that slide with the scaling of the others: a file has one."""
    keys = {name: value for name, value in full.keys.items() if name not in ("rope_theta", *KEPT)}
    return replace(block, keys={**_plain(block).keys, **keys})


def _written(reading: Reading, block: Block, row: Mapping[str, Any], notes: list[str]) -> Block:
    """The block without what some types' own converters write in another way than the others."""
    keys = dict(block.keys)
    if "base" in row and block.value("rope_theta") != row["base"]:
        notes.append(f"llama.cpp's converter writes no base for {reading.type.name}: its files turn by {row['base']:g}")
        keys["rope_theta"] = Value(row["base"], "class default", f"{reading.where}/model_type")
    if "as" in row and "factor" in keys and block.rope_type != row["as"]:
        notes.append(f"llama.cpp's converter writes {block.rope_type} as {row['as']} for {reading.type.name}")
        keys["rope_type"] = keys["rope_type"].replaced(row["as"])
    return replace(block, keys=keys)


def _dropped(reading: Reading, block: Block, notes: list[str]) -> Block:
    """The block without a scaling that the converter has no key for; what is no scaling of it stays."""
    if block.rope_type in ("default", "ntk_alpha"):
        return block
    notes.append(f"llama.cpp's converter writes no {block.rope_type} for {reading.type.name}: its files turn unscaled")
    return _plain(block)


def _proportional(reading: Reading, block: Block, label: str | None) -> Block:
    """Gemma 4's share of a head: the converter writes the divisors of pairs, so large for the rest that none turns."""
    pairs = head_width(reading, label).value // 2
    turned = min(pairs, int(pairs * (block.value("partial_rotary_factor") or 1)))
    kind = block.keys["rope_type"]
    keys = {name: value for name, value in _plain(block).keys.items() if name != "partial_rotary_factor"}
    divisors = kind.replaced([1.0] * turned + [ALL_BUT_STILL] * (pairs - turned))
    return replace(block, keys={**keys, "rope_type": kind.replaced("divisors"), "divisors": divisors})


ALL_BUT_STILL = 1e30


def _plain(block: Block) -> Block:
    """The block without its scaling."""
    keys = {name: value for name, value in block.keys.items() if name in ("rope_theta", *KEPT)}
    return replace(block, keys={**keys, "rope_type": block.keys["rope_type"].replaced("default")})


# What no scaling has a part in.
KEPT = (
    "rotary_dim",
    "partial_rotary_factor",
    "mrope_section",
    "xdrope_section",
    "mrope_interleaved",
    "llama_4_scaling_beta",
)


def _longrope(block: Block, row: Mapping[str, Any], notes: list[str]) -> Block:
    """The amplitude is of max_position_embeddings over the trained length, whatever the factor; MiniCPM 3 has none."""
    keys = {name: value for name, value in block.keys.items() if name in (*OF_LONGROPE, "rope_type")}
    if row.get("unamplified"):
        keys["attention_factor"] = block.keys["rope_type"].replaced(1.0)
        notes.append("llama.cpp's converter writes the factors of pairs without an amplitude")
    return replace(block, keys=keys)


def _scaled(reading: Reading, block: Block, row: Mapping[str, Any], kind: Kind, notes: list[str]) -> Converted:
    """A linear scaling, or YaRN, as the header of the file says it."""
    name = row["architecture"]
    stated = {ours: block.keys[ours] for ours in WRITTEN if ours in block.keys}
    if not row.get("log"):
        stated.pop("mscale_all_dim", None)
    document = {f"{name}.rope.scaling.{WRITTEN[ours]}": value.value for ours, value in stated.items()}
    if "mscale_all_dim" in stated:
        document[f"{name}.{LOG}"] = row["log"] * stated["mscale_all_dim"].value
    document[f"{name}.rope.scaling.type"] = block.rope_type
    origins = {f"/{name}.rope.scaling.{WRITTEN[ours]}": value for ours, value in stated.items()}
    origins[f"/{name}.rope.scaling.type"] = block.keys["rope_type"]
    facts: dict[str, Any] = {}
    found = scaling(Header(document, "", name), kind, _width(reading, kind.label, block), facts, [])
    keys = {ours: _placed(value, origins, f"{reading.where}/model_type") for ours, value in found.items()}
    if "attention_factor" in block.keys and block.rope_type == "yarn":
        notes.append("attention_factor is read by nothing in llama.cpp: its YaRN has 1 + ln(factor) / 10")
    trained = {ours: value for ours, value in stated.items() if ours == "original_max_position_embeddings"}
    return Converted(replace(block, keys={**_plain(block).keys, **trained, **keys}), facts, tuple(notes))


LOG = "rope.scaling.yarn_log_multiplier"


def _width(reading: Reading, label: str | None, block: Block) -> int:
    """How many channels of a head turn."""
    if "rotary_dim" in block.keys:
        return int(block.value("rotary_dim"))
    return int(head_width(reading, label).value * (block.value("partial_rotary_factor") or 1))


def _placed(value: Value, origins: Mapping[str, Value], code: str) -> Value:
    """A value of the header, with the place in the configuration that it comes from."""
    origin = origins.get(value.key)
    if origin is None:
        return Value(value.value, "class default", code)
    return Value(value.value, origin.source if value.value == origin.value else "rewritten", origin.key)


# What the converter takes of the whole where the text model says nothing: it reads both as one object.
OF_THE_WHOLE = ("head_dim", "partial_rotary_factor")


def of_the_whole(config: Mapping[str, Any], row: ModelType) -> list[str]:
    """Keys that stand beside a text model and are read by its class in no way, but by the converter."""
    part = row.parts.get("text_config")
    if part is None or "text_config" in row.rule.get("flat", ()):
        return []
    text = config.get("text_config") or {}
    name = text.get("model_type") if isinstance(text, Mapping) and part.get("auto") else None
    fields = model_type(name if isinstance(name, str) and known(name) else part["type"]).fields
    keys = [key for key in OF_THE_WHOLE if config.get(key) is not None and key not in fields and key not in text]
    said = [
        f"/{key} is read by no class here; llama.cpp's converter takes it for the text model, whose tensors do not fit"
        for key in keys
    ]
    whole, part_row = (llama_cpp().get(each, {}).get("architecture") for each in (row.name, part["type"]))
    blocks = [text.get(key) for key in ("rope_parameters", "rope_scaling")]
    if whole != part_row and not any(isinstance(block, Mapping) and "mrope_section" in block for block in blocks):
        said += of_sections(whole)
    return said


def said_of(name: str, encodings: set[str]) -> list[str]:
    """What deserves saying of a whole plan: whether llama.cpp has such a model at all."""
    row = llama_cpp().get(name)
    if row is None:
        return [f"llama.cpp's converter has no class for {name}: the plan is that of the file in ggml's arithmetic"]
    if "alibi" in encodings and row["architecture"] == "falcon":
        return ["llama.cpp has RoPE alone for falcon: its converter reads no alibi, and such a file would turn instead"]
    return []
