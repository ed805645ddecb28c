"""Every learned table of positions in transformers, measured: `python -m tests.golden.make_model_tables`.

Writes `service/models/facts/tables.json`. Each model type is built with its default configuration on PyTorch's meta
device (shapes without numbers), and every trained tensor whose name speaks of positions is taken down. Which keys of
the configuration its sizes follow from is found by trying: a key is doubled, and the sizes must move with it. Where a
position of a token begins in the table is read from the module (`offset`, `padding_idx`).
"""

import importlib.metadata
import inspect
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.golden.frozen import library
from tests.golden.make_model_rotations import folders

PATH = Path(__file__).parents[2] / "service" / "models" / "facts" / "tables.json"
POSITION = re.compile(
    r"(position_?emb|pos_emb|posemb|embed_positions|positional_emb|wpe|position_embedding|pos_embed|"
    r"positions_embed|rel_pos_[hw]|[xyhw]_position|time_embeddings|position_embeds|row_embedder|column_embedder)"
)
NOT = re.compile(r"(bias|linear|proj|norm|conv|gate|position_ids|inv_|relative|rotary|scaling_factor|integer)")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth")
SIZES = re.compile(
    r"(hidden_size|d_model|n_embd|dim$|embedding_size|positions|position_embeddings|max_.*(len|length|pos_emb|patches)|"
    r"image_size|patch_size|num_frames|tubelet_size|block_size|seq_len|context_length|num_patches|window_size|n_ctx|"
    r"position_embedding_size|num_position|pos_emb_|temporal|head_dim|_stride|pos_embed|num_mel|max_length|num_queries)"
)


def classes() -> dict[str, list[Any]]:
    """The model classes of each configuration class, by its name."""
    transformers, found = library("transformers"), {}
    for path in folders():
        try:
            owner = library(f"transformers.models.{path.parent.name}.{path.stem}")
        except ImportError:  # a library beside transformers that the file wants
            continue
        for name, each in vars(owner).items():
            if not (inspect.isclass(each) and issubclass(each, transformers.PreTrainedModel)):
                continue
            if each.__module__ != owner.__name__ or name.endswith("PreTrainedModel"):
                continue
            stated = [parameter.annotation for parameter in inspect.signature(each.__init__).parameters.values()]
            config = next((x for x in stated if isinstance(x, type) and hasattr(x, "model_type")), each.config_class)
            if config is not None:
                found.setdefault(config.__name__, []).append(each)
    return found


def model_class(model_type: str, config: Any, by_config: dict[str, list[Any]]) -> Any:
    """The plain model of a type, or the first class that takes its configuration."""
    transformers = library("transformers")
    named = library("transformers.models.auto.modeling_auto").MODEL_MAPPING_NAMES.get(model_type)
    name = named if isinstance(named, str) or named is None else named[0]
    chosen = getattr(transformers, name, None) if name else None
    return chosen if inspect.isclass(chosen) else next(iter(by_config.get(type(config).__name__, [])), None)


def built(model_type: str, by_config: dict[str, list[Any]], **changes: Any) -> tuple[Any, Any]:
    """(configuration, model on the meta device), of one layer where that can be asked for."""
    torch, config_class = library("torch"), library("transformers").CONFIG_MAPPING[model_type]
    fields = getattr(config_class, "__dataclass_fields__", {})
    config = config_class(**({key: 1 for key in LAYERS if key in fields} | changes))
    chosen = model_class(model_type, config, by_config)
    if chosen is None:
        raise ValueError("no class takes this configuration")
    with torch.device("meta"):
        return config, chosen(config)


def tables(model: Any) -> dict[str, dict[str, Any]]:
    """Trained tensors of positions by name, layers counted once."""
    found: dict[str, dict[str, Any]] = {}
    for name, tensor in model.named_parameters():
        owner_name, _, _ = name.rpartition(".")
        module = model.get_submodule(owner_name)
        plain = re.sub(r"\.\d+\.", ".0.", name)
        if not POSITION.search(name) or NOT.search(name) or not tensor.requires_grad:
            continue
        if "Sinus" in type(module).__name__ or plain in found:
            continue
        entry: dict[str, Any] = {"shape": list(tensor.shape)}
        if getattr(module, "padding_idx", None) is not None:
            entry["padding_idx"] = module.padding_idx
        if isinstance(getattr(module, "offset", None), int):
            entry["offset"] = module.offset
        found[plain] = entry
    return found


def sizes(config: Any) -> dict[str, int]:
    """The configuration's whole numbers that may be sizes of a table."""
    chosen = {}
    for key, value in config.to_dict().items():
        if isinstance(value, int) and not isinstance(value, bool) and value > 0 and SIZES.search(key):
            chosen[key] = value
    return chosen


def moved(model_type: str, by_config: dict[str, list[Any]], before: dict[str, Any], config: Any) -> dict[str, Any]:
    """key -> the shapes after that key is doubled, where that can be built and changes any."""
    after = {}
    for key, value in sizes(config).items():
        try:
            _, model = built(model_type, by_config, **{key: 2 * value})
        except Exception:  # a size that cannot be doubled alone is no size of a table
            continue
        shapes = {name: entry["shape"] for name, entry in tables(model).items()}
        if shapes != {name: entry["shape"] for name, entry in before.items()}:
            after[key] = shapes
    return after


def explained(name: str, axis: int, size: int, values: dict[str, int], after: dict[str, Any]) -> Any:
    """One size as keys: {"key", "plus"} or {"grid": [image, patch], "plus"}; the number itself where none moves it."""
    moves = {key: shapes[name][axis] for key, shapes in after.items() if name in shapes}
    moves = {key: new for key, new in moves.items() if new != size}
    for key, new in sorted(moves.items()):
        if new - size == values[key] and abs(size - values[key]) <= 16:
            return _sum({"key": key}, size - values[key])
    if set(moves) >= {"image_size", "patch_size"}:
        image, patch = values["image_size"], values["patch_size"]
        for power, word in ((2, "grid"), (1, "side")):
            plus = size - (image // patch) ** power
            if (2 * image // patch) ** power + plus == moves["image_size"] and abs(plus) <= 16:
                return _sum({word: ["image_size", "patch_size"]}, plus)
    if moves == {"window_size": 2 * (2 * values.get("window_size", 0)) - 1} and size == 2 * values["window_size"] - 1:
        return {"distances": "window_size"}
    for key, new in moves.items():
        if new % values[key] == 0 and size % values[key] == 0 and new // size == 2:
            return {"key": key, "times": size // values[key]}
        if (2 * values[key]) ** 2 + size - values[key] ** 2 == new and abs(size - values[key] ** 2) <= 16:
            return _sum({"square": key}, size - values[key] ** 2)
    return {"unexplained": size, "moved_by": moves} if moves else size


def _sum(term: dict[str, Any], plus: int) -> dict[str, Any]:
    return term | {"plus": plus} if plus else term


def rows_of(model_type: str, by_config: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """The tables of a type that holds its own, not those of a part with a type of its own."""
    config, model = built(model_type, by_config)
    if any(getattr(config, key, None) is not None for key in config.sub_configs if key != "backbone_config"):
        return
    before = tables(model)
    values = sizes(config)
    after = moved(model_type, by_config, before, config) if before else {}
    for name, entry in before.items():
        shape = [explained(name, axis, size, values, after) for axis, size in enumerate(entry["shape"])]
        yield {"tensor": name.removesuffix(".weight"), **entry, "shape": shape}


def build(types: list[str] | None = None) -> dict[str, Any]:
    logging.disable(logging.CRITICAL)
    by_config = classes()
    facts: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for model_type in types or list(library("transformers").CONFIG_MAPPING):
        try:
            rows = list(rows_of(model_type, by_config))
        except Exception as error:  # what cannot be built here is listed, and has rows by hand
            failed[model_type] = f"{type(error).__name__}: {error}".split("\n")[0][:100]
            continue
        if rows:
            facts[model_type] = rows
    return {"types": facts, "not built": failed}


def write() -> None:
    facts = {"transformers": importlib.metadata.version("transformers"), "script": __spec__.name, **build()}
    PATH.write_text(json.dumps(facts, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    write()
