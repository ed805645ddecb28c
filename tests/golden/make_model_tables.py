"""Every learned table of positions in transformers, measured: `python -m tests.golden.make_model_tables`.

Writes `service/models/facts/tables.json`. Each model type is built with its default configuration on PyTorch's meta
device (shapes without numbers), and every trained tensor whose name speaks of positions is taken down. Which keys of
the configuration its sizes follow from is found by trying: a key is doubled, and the sizes must move with it. Where a
position of a token begins in the table is read from the module (`offset`, `padding_idx`), or from the position ids that
the module around it keeps.
"""

import importlib.metadata
import inspect
import json
import logging
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod
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
    r"image_size|img_size|patch_size|num_frames|tubelet_size|block_size|seq_len|context_length|num_patches|window_size|n_ctx|"
    r"position_embedding_size|num_position|pos_emb_|temporal|head_dim|_stride|pos_embed|num_mel|max_length|num_queries|coordinate_size|"
    r"shape_size|input_size|grid_size|num_hash_buckets)"
)
PICTURE = re.compile(r"(image_size|input_size|img_size)$")
PATCH = ("patch_size", "patch_stride", "tubelet_size")


@lru_cache(maxsize=1)
def classes() -> dict[str, list[Any]]:
    """The model classes of each configuration class, by its name."""
    transformers = library("transformers")
    found: dict[str, list[Any]] = {}
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
            config: Any = next((x for x in stated if isinstance(x, type) and hasattr(x, "model_type")), None)
            config = config or getattr(each, "config_class", None)
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
    one = {key: 1 for key in LAYERS if key in getattr(config_class, "__dataclass_fields__", {})}
    problems: list[Exception] = []
    for layers in (one, {}):
        try:
            config = config_class(**(layers | changes))
            chosen = model_class(model_type, config, by_config)
            if chosen is None:
                raise ValueError("no class takes this configuration")
            with torch.device("meta"):
                return config, chosen(config)
        except Exception as error:  # whatever stops the library stops this attempt
            problems.append(error)
    raise problems[-1]


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


def first_position(model: Any, name: str) -> int:
    """The first of the position ids kept beside a table, for which the module that keeps them is built anew."""
    keeper = model.get_submodule(name.removesuffix(".weight").rpartition(".")[0])
    if not isinstance(getattr(keeper, "position_ids", None), library("torch").Tensor):
        return 0
    try:
        return int(type(keeper)(model.config).position_ids.flatten()[0])
    except (AttributeError, TypeError):  # one that takes another or more than the configuration keeps ids from 0
        return 0


def sizes(config: Any) -> dict[str, int]:
    """The configuration's whole numbers that may be sizes of a table."""
    return {
        key: value
        for key, value in config.to_dict().items()
        if isinstance(value, int) and not isinstance(value, bool) and value > 0 and SIZES.search(key)
    }


def moved(model_type: str, by_config: dict[str, list[Any]], before: dict[str, Any], values: dict[str, int]) -> Any:
    """key -> the shapes after that key is doubled, where that can be built and changes any.

    Keys that only double together, because the class wants them equal, stand under the first of their names.
    """
    shapes = {name: entry["shape"] for name, entry in before.items()}

    def after(**changes: int) -> Any:
        try:
            _, model = built(model_type, by_config, **changes)
        except Exception:  # a size that cannot be doubled alone is no size of a table
            return None
        new = {name: entry["shape"] for name, entry in tables(model).items()}
        return new if new != shapes else None

    found = {key: after(**{key: 2 * value}) for key, value in values.items()}
    for key, value in values.items():
        alike = {other: 2 * value for other, same in values.items() if same == value and found[other] is None}
        if found[key] is None and len(alike) > 1 and key == min(alike, key=lambda name: (name != "hidden_size", name)):
            found[key] = after(**alike)
    return {key: new for key, new in found.items() if new is not None}


def explained(name: str, axis: int, size: int, config: Any, after: dict[str, Any]) -> Any:  # noqa: PLR0911
    """One size as keys, as `service/models/sizes.py` reads them; the number itself where none moves it."""
    values = sizes(config)
    moves = {key: shapes[name][axis] for key, shapes in after.items() if name in shapes}
    moves = {key: new for key, new in moves.items() if new != size}
    for key, new in sorted(moves.items()):
        if new - size == values[key] and abs(size - values[key]) <= 16:
            return _sum({"key": key}, size - values[key])
        if new == 4 * values[key] - 1 and size == 2 * values[key] - 1:
            return {"distances": key}
    patches = _grid(size, config, moves)
    if patches is not None:
        return patches
    for key, new in moves.items():
        parts = values.get("num_attention_heads") or getattr(config, "num_attention_heads", 0)
        if new == 2 * size and isinstance(parts, int) and parts and size == values[key] // parts:
            return {"ratio": [key, "num_attention_heads"]}
        if new == 2 * size and isinstance(parts, int) and parts and 2 * size == values[key] // parts:
            return {"ratio": [key, "num_attention_heads"], "over": 2}
        if new == 2 * size and values[key] % size == 0:
            return {"key": key, "over": values[key] // size}
        if new == 2 * size and size % values[key] == 0:
            return {"key": key, "times": size // values[key]}
        if (2 * values[key]) ** 2 + size - values[key] ** 2 == new and abs(size - values[key] ** 2) <= 16:
            return _sum({"square": key}, size - values[key] ** 2)
    return {"unexplained": size, "moved_by": moves} if moves else size


def _grid(size: int, config: Any, moves: dict[str, int]) -> Any:
    """A size as the patches of a picture, or those along one side of it."""
    stated = config.to_dict()
    pictures = [key for key in stated if PICTURE.search(key) and stated[key]]
    for picture, patch in product(pictures, [key for key in PATCH if stated.get(key)]):
        for word in ("grid", "side"):

            def count(word: str = word, picture: str = picture, patch: str = patch, **changes: int) -> int:
                pixels, side = (_axes(changes.get(key, stated[key])) for key in (picture, patch))
                counts = [a // b for a, b in zip(pixels, side, strict=True)]
                return prod(counts) if word == "grid" else counts[0]

            if not count() or abs(size - count()) > 16:
                continue
            plus = size - count()
            numbers = [key for key in (picture, patch) if isinstance(stated[key], int)]
            if not numbers and plus <= 2 and size > 16 and not moves:
                return _sum({word: [picture, patch]}, plus)
            if numbers and all(count(**{key: 2 * stated[key]}) + plus == moves.get(key) for key in numbers):
                return _sum({word: [picture, patch]}, plus)
    return None


def _axes(value: Any) -> tuple[int, int]:
    """The last two axes of a size that is one number or a list."""
    axes = list(value) if isinstance(value, (list, tuple)) else [value]
    height, width = (axes * 2)[-2:]
    return height, width


def _sum(term: dict[str, Any], plus: int) -> dict[str, Any]:
    return term | {"plus": plus} if plus else term


def rows_of(model_type: str, by_config: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """The tables of a type that holds its own, not those of a part with a type of its own."""
    config, model = built(model_type, by_config)
    if any(getattr(config, key, None) is not None for key in config.sub_configs):
        return
    before = tables(model)
    after = moved(model_type, by_config, before, sizes(config)) if before else {}
    for name, entry in before.items():
        shape = [explained(name, axis, size, config, after) for axis, size in enumerate(entry["shape"])]
        first = 0 if "padding_idx" in entry else first_position(model, name)
        begins = {"offset": first} if first else {}
        yield {"tensor": name.removesuffix(".weight"), **entry, **begins, "shape": shape}


def mentioned() -> set[str]:
    """Every word that the facts kept by hand and the code beside them put in quotes: keys are among them."""
    rooms = PATH.parents[1]
    texts = [PATH.with_name("positions.json"), *sorted((rooms / "families").glob("*.py"))]
    return {word for path in texts for word in re.findall(r'"([a-z_0-9]+)"', path.read_text())}


# What a class of another number of layers makes anew.
OF_LAYERS = {"attention_types"}


def defaults(model_type: str, words: set[str]) -> dict[str, Any]:
    """The class's defaults of keys that those facts mention, where `transformers.json` has not the same.

    What a class makes of its other keys (a list of nothing stated) is no default: of other keys it is another.
    """
    fields = getattr(library("transformers").CONFIG_MAPPING[model_type], "__dataclass_fields__", {})
    stated = {key: field.default for key, field in fields.items()}
    try:
        config = library("transformers").CONFIG_MAPPING[model_type]().to_dict()
    except Exception:  # a class whose defaults contradict each other has those that it states
        config = stated
    known = _known()["types"].get(model_type, {}).get("fields", {})
    simple = (bool, int, float, str, list, tuple, type(None))
    chosen = (words & set(fields) & set(config)) - OF_LAYERS
    made = {key for key in chosen if stated[key] is None and isinstance(config[key], (list, tuple))}
    found = {key: config[key] for key in sorted(chosen - made) if isinstance(config[key], simple)}
    return {key: value for key, value in found.items() if key not in known or known[key] != value}


@lru_cache(maxsize=1)
def _known() -> Any:
    return json.loads(PATH.with_name("transformers.json").read_text())


def build_fields(measured: dict[str, Any]) -> dict[str, Any]:
    """Of every type that has a table or a row by hand."""
    words = mentioned() | set(re.findall(r'"([a-z_0-9]+)"', json.dumps(measured)))
    by_hand = json.loads(PATH.with_name("positions.json").read_text())["groups"]
    named = {*measured, *(name for group in by_hand for name in group["types"])}
    found = {name: defaults(name, words) for name in sorted(named & set(library("transformers").CONFIG_MAPPING))}
    return {name: fields for name, fields in found.items() if fields}


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
    return {"types": facts, "fields": build_fields(facts), "not built": failed}


def write() -> None:
    facts = {"transformers": importlib.metadata.version("transformers"), "script": __spec__.name, **build()}
    PATH.write_text(json.dumps(facts, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    write()
