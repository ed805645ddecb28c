"""Keys that decide how some model encodes positions, and when a value of one contradicts a model that does not read it.

Files carry keys of other code: a neutral value of one (a factor of 1, a base that is the model's own) says nothing, any
other says that the file is of a model which the plan is not.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from service.models.known import ModelType, model_type
from service.models.plan import Use

# What the name of a scheme is where a file says it in a word.
WORDS: Mapping[str, tuple[str, ...]] = {
    "rope": ("rope", "rotary", "roformer", "mrope"),
    "rope-axes": ("rope", "rotary", "mrope"),
    "learned": ("absolute", "learned", "learnable"),
    "sinusoidal": ("absolute", "sinusoidal", "sine", "fixed"),
    "alibi": ("alibi",),
    "none": ("none", "nope"),
}
# Keys that most types have.
OF_MOST = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor")


def _pairs(uses: Iterable[Use]) -> list[Use]:
    """The uses that turn pairs."""
    return [use for use in uses if use.encoding.startswith("rope")]


def _stated(uses: Iterable[Use], name: str) -> list[Any]:
    """A parameter or a fact of the uses that turn."""
    of = [(use.parameters[name].value if name in use.parameters else use.facts.get(name)) for use in _pairs(uses)]
    return [value for value in of if value is not None]


def _any(_value: Any, _uses: Sequence[Use]) -> bool:
    return True


def _word(value: Any, uses: Sequence[Use]) -> bool:
    """A scheme by its name: harmless where it is the model's own."""
    if not isinstance(value, str):
        return False
    plain = value.lower().replace("-", "_")
    # `rope_gptj`, `rotary_position`: however a file calls it.
    return all(not plain.startswith(WORDS.get(use.encoding, plain)) for use in uses)


def _turning(value: Any, uses: Sequence[Use]) -> bool:
    """Whether pairs turn: as a truth value, a word, or an object that says how."""
    if isinstance(value, bool):
        return value is not bool(_pairs(uses))
    return _word(value, uses) if isinstance(value, str) else bool(value)


def _scheme(name: str) -> Callable[[Any, Sequence[Use]], bool]:
    """A switch of a scheme, or a number of it: harmless where the model has that scheme."""
    return lambda _, uses: all(use.encoding != name for use in uses)


def _base(value: Any, uses: Sequence[Use]) -> bool:
    given, own = value if isinstance(value, list) else [value], _stated(uses, "base")
    return any(each not in own for each in given)


def _share(value: Any, uses: Sequence[Use]) -> bool:
    of = [(use.facts.get("rotary_dim"), use.parameters["dim"].value) for use in uses if use.encoding == "rope"]
    return value not in ([part / whole for part, whole in of if part is not None] or [1])


def _turned(value: Any, uses: Sequence[Use]) -> bool:
    return value not in _stated(uses, "rotary_dim")


def _head(value: Any, uses: Sequence[Use]) -> bool:
    """The width of a head: it decides where pairs turn."""
    return bool(_pairs(uses)) and value not in _stated(uses, "dim")


def _factor(value: Any, _uses: Sequence[Use]) -> bool:
    return bool(value != 1)


def _length(value: Any, _uses: Sequence[Use]) -> bool:
    return not isinstance(value, (int, float)) or value > 0


def _layers(value: Any, _uses: Sequence[Use]) -> bool:
    """A list with a one for each layer that turns: all of them ones turn all."""
    return not isinstance(value, list) or any(each != 1 for each in value)


def _neighbours(value: Any, uses: Sequence[Use]) -> bool:
    return isinstance(value, bool) and ("half" if value else "interleaved") in _stated(uses, "pairing")


def _halves(value: Any, uses: Sequence[Use]) -> bool:
    return isinstance(value, bool) and _neighbours(not value, uses)


def _turns_beside(_value: Any, uses: Sequence[Use]) -> bool:
    """A key that most types have: of a model that turns, what becomes of it is said where it is read."""
    return not _pairs(uses)


def _scaling_word(value: Any, uses: Sequence[Use]) -> bool:
    return value not in ("default", "none", *_stated(uses, "rope_type"))


_RULES: Mapping[Callable[[Any, Sequence[Use]], bool], tuple[str, ...]] = {
    _any: (
        "use_dynamic_ntk", "use_logn_attn", "position_encoding_2d", "use_mrope", "attention_chunk_size",
        "attn_temperature_tuning", "relative_attention", "rotary_value", "use_mem_rope", "axial_pos_embds",
        "has_relative_attention_bias", "use_relative_position_bias", "use_shared_relative_position_bias",
        "use_relative_position_embeddings",
    ),
    _word: (
        "position_embedding_type", "position_embeddings_type", "positional_encoding_type", "position_encoding_type",
        "positional_embedding_type", "pos_embedding_type", "pos_emb", "pos_emb_type", "pos_encoding",
        "positional_embedding", "positional_encoding", "position_embedding", "position_encoding",
    ),
    _turning: (
        "rope", "rotary", "rope_config", "rope_params", "rotary_config", "rotary_emb", "rotary_embedding", "use_rope",
        "use_rotary", "use_rotary_emb", "use_rotary_embedding", "use_rotary_embeddings",
        "use_rotary_position_embeddings",
    ),
    _scheme("alibi"): ("alibi", "use_alibi", "alibi_bias_max"),
    _scheme("learned"): ("learned_pos_emb", "use_absolute_position_embeddings", "use_learned_position_embeddings"),
    _scheme("sinusoidal"): ("sinusoidal_pos_embds",),
    _base: (
        "rotary_base", "rope_base", "rotary_emb_base", "rotary_embedding_base", "rope_embedding_base", "theta",
        "rope_freq_base", "global_rope_theta", "local_rope_theta", "rope_local_base_freq", "swa_rope_theta",
        "compress_rope_theta", "layer_rope_theta",
    ),
    _share: (
        "rotary_pct", "rope_pct", "rotary_percent", "rope_percent", "rotary_percentage", "rotary_fraction",
        "rotary_emb_fraction", "rope_fraction",
    ),
    _turned: ("rotary_dim", "rotary_ndims", "qk_rope_head_dim"),
    _head: ("head_size", "kv_channels", "size_per_head", "d_head", "attention_head_size", "attention_head_dim"),
    _factor: ("rope_ratio", "rope_factor", "rope_scaling_factor"),
    _length: (
        "no_rope_layer_interval", "relative_attention_num_buckets", "relative_attention_max_distance",
        "max_relative_positions", "position_buckets",
    ),
    _layers: ("no_rope_layers", "partial_rotary_factors"),
    _neighbours: ("rope_interleave", "rope_interleaved", "rotary_interleaved"),
    _halves: ("is_neox_style", "rope_is_neox_style"),
    _scaling_word: ("rope_type", "rope_scaling_type"),
    _turns_beside: OF_MOST,
}  # fmt: skip
DECIDES = {key: rule for rule, keys in _RULES.items() for key in keys}
# False says something of these, of the others that there is no such thing.
ALSO_FALSE = (_turning, _neighbours, _halves)


def matters(key: str, value: Any, uses: Sequence[Use]) -> bool:
    """Whether a value would make another model of one whose positions enter by these uses."""
    rule = DECIDES[key]
    if value is None or value in ([], {}):
        return False
    return (value is not False or rule in ALSO_FALSE) and rule(value, uses)


@lru_cache(maxsize=1024)
def of_rule(name: str) -> frozenset[str]:
    """Every word of the type's rules, among which are the keys that it reads under names of its own."""
    rule = {key: value for key, value in model_type(name).rule.items() if key != "older"}
    return frozenset(json.dumps(rule).replace('"', " ").replace(",", " ").replace("]", " ").replace("[", " ").split())


def reads(row: ModelType, key: str) -> bool:
    """Whether the class of a type has the key, or its rule names it."""
    return key in row.fields or key in row.aliases or key in of_rule(row.name)


def of_rotation(key: object) -> bool:
    """Whether a key that is not listed speaks of rotation."""
    return isinstance(key, str) and key.startswith(("rope_", "rotary_"))


def suspects(row: ModelType, document: Mapping[str, Any]) -> bool:
    """Whether the object has a key that may decide, and that the class does not have."""
    return any((key in DECIDES or of_rotation(key)) and not reads(row, key) for key in document)
