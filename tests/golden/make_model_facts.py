"""Writes `service/models/facts/transformers.json`: what the configuration classes of transformers say of positions.

Run with the libraries of the oracle stage: `python -m tests.golden.make_model_facts`. One row a model type: the class,
the fields that positions can depend on with their defaults, other names of fields, the configurations within it,
whether AutoModel maps it to a model (`backbone`), and which rule its rotary module computes unscaled frequencies by.
Facts only; the rules themselves are in `service.models`.
"""

import ast
import dataclasses
import importlib
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

FACTS = Path(__file__).parents[2] / "service" / "models" / "facts" / "transformers.json"
# Fields that positions can depend on.
POSITIONAL = re.compile(
    r"rope|rotary|theta|position|layer_types|layers_block_type|hybrid|sliding|window|hidden_size|embed_dim|head|n_embd"
    r"|d_model|d_kv|num_hidden_layers|num_layers|^layers|depth|kv_channels|mscale|beta|partial|alibi|relative|bucket"
    r"|patch|image_size|grid|num_frames|tubelet|stride|temporal|spatial|max_source|max_target|padding_idx|pad_token_id"
    r"|n_positions|n_ctx|clamp_len|attn_type|bi_data|attention_type|timescale|max_seq|seq_len|seq_length|context|chunk"
    r"|interval|every_n|pattern|temperature|scale|multiplier|query_pre|logn|nope|qk_|attn_layer|full_attention|global"
    r"|local|hidden_dim|^dim$|^dims$|_dim$|sinusoid|trainable|num_mel|conv_pos|segment|downsample|merge|_size$|axial"
    r"|multi_query|^width|patcher|is_encoder_decoder|use_mem|attn_config|with_cls|class_token|register|type_vocab"
    r"|block_types|pos_?emb|^architecture$|frames_per|prediction|normalize|norm_before|bidirectional|is_causal|is_decoder|prefix|block_length|mlp_layer"
)
DULL = re.compile(
    r"dropout|_prob$|initializer|token_id$|_index$|act$|vocab_size$|intermediate|loss|projector_hidden_act"
)


def simple(value: Any) -> bool:
    """Whether a default is plain JSON of a reasonable size."""
    if isinstance(value, (list, tuple)):
        return len(value) <= 128 and all(simple(each) for each in value)
    if isinstance(value, dict):
        return len(value) <= 32 and all(isinstance(key, str) and simple(each) for key, each in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def fields_of(cls: type) -> dict[str, Any]:
    """The positional fields of a configuration class and their defaults."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if (DULL.search(field.name) and field.name != "pad_token_id") or not POSITIONAL.search(field.name):
            continue
        if field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            continue
        if simple(value):
            found[field.name] = value
    return found


def nullable(cls: type) -> list[str]:
    """Those of its positional fields that have a default and take null all the same: the class fails on the others'."""
    said = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    return [name for name, value in fields_of(cls).items() if value is not None and re.search("None|Any", said[name])]


def parts_of(cls: Any, types: dict[type, str]) -> dict[str, Any]:
    """The configurations within one: of which type, and what they are made with where the file says nothing."""
    parts: dict[str, Any] = {}
    for key, spec in (cls.sub_configs_defaults or {}).items():
        inner = spec.config_class
        auto = inner.__name__ == "AutoConfig"
        row: dict[str, Any] = {"auto": True} if auto else {"type": types.get(inner, inner.model_type or inner.__name__)}
        given = {name: value for name, value in (getattr(spec, "init_kwargs", None) or {}).items() if simple(value)}
        if auto:
            row["type"] = spec.model_type
        if getattr(spec, "optional", False):
            row["optional"] = True
        kept = {n: v for n, v in given.items() if POSITIONAL.search(n) and not DULL.search(n) and n != "model_type"}
        if kept:
            row["given"] = kept
        parts[key] = row
    return parts


RULE_NAMES = ("compute_default_rope_parameters", "compute_axial_rope_parameters")


def rotary_modules(module: Any) -> dict[str, list[list[str]]]:
    """Configuration class -> its rotary modules and the rules of their unscaled frequencies, by reading the source."""
    found: dict[str, list[list[str]]] = {}
    tree = ast.parse(Path(module.__file__).read_text())
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        rules = [name for name in RULE_NAMES if name in methods]
        if not rules or "__init__" not in methods:
            continue
        config = next((a.annotation for a in methods["__init__"].args.args if a.arg == "config"), None)
        body = "\n".join(ast.unparse(each) for each in methods[rules[0]].body)
        name = config.id if isinstance(config, ast.Name) else ast.unparse(config) if config else ""
        found.setdefault(name.strip("'\""), []).append([node.name, rule_of(rules[0], body)])
    return found


def rule_of(method: str, body: str) -> str:
    """A word for the rule of unscaled frequencies."""
    kind = "axial" if "axial" in method else "plain"
    if "partial_rotary_factor" in body:
        kind = "partial"
    return kind + ("-by-layer" if "rope_parameters[layer_type]" in body else "")


def all_types() -> dict[str, Any]:
    """The configuration class of every model type: those that can be asked for, then those of parts."""
    base: Any = importlib.import_module("transformers").PreTrainedConfig
    auto: Any = importlib.import_module("transformers.models.auto.configuration_auto")
    found: dict[str, Any] = {name: auto.CONFIG_MAPPING[name] for name in auto.CONFIG_MAPPING_NAMES}
    for cls in list(found.values()):
        within: list[Any] = list(vars(inspect.getmodule(cls)).values())
        for each in within:
            if isinstance(each, type) and issubclass(each, base) and each is not base:
                found.setdefault(getattr(each, "model_type", "") or each.__name__, each)
    return found


def facts() -> dict[str, Any]:
    """The whole file."""
    transformers: Any = importlib.import_module("transformers")
    types = all_types()
    names: dict[Any, str] = {cls: name for name, cls in reversed(types.items())} | {
        cls: name for name, cls in types.items() if cls.model_type == name
    }
    rotary: dict[str, list[list[str]]] = {}
    for cls in names:
        home = cls.__module__.replace(".configuration_", ".modeling_")
        try:
            module = importlib.import_module(home)
        except ImportError:
            continue
        for name, rules in rotary_modules(module).items():
            rotary.setdefault(name, rules)
    rows: dict[str, Any] = {}
    backbones: Any = importlib.import_module("transformers.models.auto.modeling_auto").MODEL_MAPPING_NAMES
    for key, cls in sorted(types.items()):
        row: dict[str, Any] = {"class": cls.__name__, "fields": fields_of(cls)}
        row |= {"nullable": found} if (found := nullable(cls)) else {}
        if key in backbones:
            row["backbone"] = True
        if not cls.model_type:
            row["nameless"] = True
        if cls.attribute_map:
            row["aliases"] = dict(cls.attribute_map)
        parts = parts_of(cls, names)
        if parts:
            row["parts"] = parts
        theta = getattr(cls, "default_theta", 10_000.0)
        if theta != 10_000.0 and simple(theta):
            row["theta"] = theta
        if getattr(cls, "default_rope_type", "default") != "default":
            row["rope_type"] = cls.default_rope_type
        labels = getattr(cls, "_rope_type_labels", None)
        if isinstance(labels, (list, tuple)):
            row["labels"] = list(labels)
        if cls.__name__ in rotary:
            row["rotary"] = rotary[cls.__name__]
        rows[key] = row
    return {"transformers": transformers.__version__, "types": rows}


def main() -> None:
    text = json.dumps(facts(), indent=None, sort_keys=True, separators=(",", ":"))
    FACTS.write_text(text.replace('},"', '},\n"') + "\n")
    sys.stdout.write(f"{FACTS}: {len(text)} bytes\n")


if __name__ == "__main__":
    main()
