"""Vision transformers that attend within windows: trained biases by the distance of two patches, stage by stage."""

from collections.abc import Iterator
from math import prod

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.resizing import resized
from service.models.plan import Address, Use, Value
from service.models.reading import Reading
from service.models.sizes import grid, numbers, size


def _stages(reading: Reading) -> tuple[str, tuple[int, ...]]:
    """Heads of each stage, as many stages as depths has entries."""
    key, heads = numbers(reading, "num_heads" if reading.find("num_heads") else "num_attention_heads")
    depths = numbers(reading, "depths")[1]
    if len(heads) != len(depths):
        raise Refusal(key, "shape", f"{len(heads)} numbers of heads for {len(depths)} stages")
    return key, heads


def swin(reading: Reading, _context: Context) -> Iterator[Use]:
    """One use for all stages: the window is the same, the heads are not."""
    window = reading.needed("window_size", 1, 1024)
    side = window.value
    rows = (2 * side - 1) ** 2
    _, heads = _stages(reading)
    parameters = {"window": window.replaced([side, side])}
    yield Use(
        role="vision-tower" if "audio" not in reading.type.name else "audio-tower",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="swin",
        scheme=("biases", "swin-index"),
        parameters=parameters,
        facts={"table": [rows, "/".join(map(str, heads))], "heads": list(heads), "shift": side // 2},
        notes=("odd layers of a stage shift the windows by half: tokens of different regions do not see each other",),
        addresses={"tables": ask("biases", "swin-index", parameters).address()},
    )
    if reading.flag("use_absolute_embeddings"):
        rows_of = size(reading, {"grid": ["image_size", "patch_size"]})
        yield _added(reading, [rows_of.value, reading.needed("embed_dim").value], rows_of.key, 0)


def _added(reading: Reading, table: list[int], key: str, prefix: int) -> Use:
    rule = {"offset_rule": Value("none", "class default", reading.where or "/")}
    use = Use(
        role="vision-tower",
        scope=reading.where,
        model_type=reading.type.name,
        encoding="learned",
        scheme=("learned", "lookup"),
        parameters={"rows": Value(table[0], "rewritten", key), "dim": Value(table[1], "rewritten", key), **rule},
        facts={"table": table, "first_row": 0},
        addresses={"lookup": ask("learned", "lookup", rule, length=str(table[0])).address()},
    )
    return resized(reading, use, prefix, ("image_size", "patch_size"))


def swin_v2(reading: Reading, _context: Context) -> Iterator[Use]:
    """A use for each stage: a window is never wider than the stage's map, and coordinates go by the trained window."""
    window = reading.needed("window_size", 1, 1024)
    key, (rows, columns) = grid(reading, "image_size", "patch_size")
    heads = _stages(reading)[1]
    trained = _trained(reading, len(heads))
    shrinks = reading.type.name == "swinv2"
    for stage, count in enumerate(heads):
        scale = 2**stage if shrinks else 1
        sides = [max(1, min(axis // scale, window.value)) for axis in (rows, columns)]
        parameters = {"window": window.replaced(sides)}
        if trained[stage]:
            parameters["pretrained_window"] = Value(
                [trained[stage]] * 2, "config", reading.at("pretrained_window_sizes")
            )
        yield Use(
            role="vision-tower",
            scope=reading.where,
            model_type=reading.type.name,
            encoding="swin-v2",
            scheme=("biases", "swin-v2-coordinates"),
            layer_type=f"stage {stage}",
            parameters=parameters,
            facts={"stage": stage, "heads": count, "window": sides, "coordinates": [2 * side - 1 for side in sides]},
            notes=("16 times the sigmoid of a small network of these coordinates, a value for each head",),
            addresses={
                "tables": ask("biases", "swin-v2-coordinates", parameters).address(),
                "index": ask("biases", "swin-index", {"window": parameters["window"]}).address(),
            },
        )
    if reading.flag("use_absolute_embeddings"):
        yield _added(reading, [rows * columns, reading.needed("embed_dim").value], key, 0)


def _trained(reading: Reading, stages: int) -> tuple[int, ...]:
    found = reading.find("pretrained_window_sizes")
    if found is None or found.value is None:
        return (0,) * stages
    key, sizes = numbers(reading, "pretrained_window_sizes", 0)
    if len(sizes) != stages:
        raise Refusal(key, "shape", f"pretrained_window_sizes has {len(sizes)} entries for {stages} stages")
    return sizes


def beit(reading: Reading, _context: Context) -> Iterator[Use]:
    """Three flags: a table added to patches, a bias in each layer, a bias shared by all."""
    key, patches = grid(reading, "image_size", "patch_size")
    if reading.flag("use_absolute_position_embeddings"):
        yield _added(reading, [prod(patches) + 1, reading.needed("hidden_size").value], key, 1)
    rows = prod(2 * side - 1 for side in patches) + 3
    heads = reading.needed("num_attention_heads").value
    parameters = {
        "window": Value(list(patches), "rewritten", key),
        "class_token": Value("first", "class default", reading.where or "/"),
    }
    flags = {"use_relative_position_bias": False, "use_shared_relative_position_bias": True}
    if not any(reading.flag(flag) for flag in ("use_absolute_position_embeddings", *flags)):
        why = "use_absolute_position_embeddings and both relative biases are false: nothing tells patches apart"
        yield Use(role="vision-tower", scope=reading.where, model_type=reading.type.name, encoding="none", notes=(why,))
    for flag, shared in flags.items():
        if reading.flag(flag):
            yield Use(
                role="vision-tower",
                scope=reading.where,
                model_type=reading.type.name,
                encoding="swin",
                scheme=("biases", "swin-index"),
                parameters=parameters,
                facts={
                    "table": [rows, heads],
                    "shared": shared,
                    "cls_to_all": rows - 3,
                    "all_to_cls": rows - 2,
                    "cls_cls": rows - 1,
                },
                notes=("one table for all layers" if shared else "each layer has a table of its own",),
                addresses={"tables": ask("biases", "swin-index", parameters).address()},
            )


def levit(reading: Reading, _context: Context) -> Iterator[Use]:
    """Biases by the absolute distances, a use for each stage's own attention."""
    pixels, patch = numbers(reading, "image_size")[1], numbers(reading, "patch_size")[1]
    side = pixels[0] // patch[0]
    for stage, heads in enumerate(numbers(reading, "num_attention_heads")[1]):
        if side < 1:
            raise Refusal(reading.at("image_size"), "conflict", f"stage {stage} has no patch left")
        window = Value([side, side], "rewritten", reading.at("image_size"))
        parameters = {"window": window, "distances": Value("absolute", "class default", reading.where or "/")}
        address: Address = ask("biases", "swin-index", parameters).address()
        yield Use(
            role="vision-tower",
            scope=reading.where,
            model_type=reading.type.name,
            encoding="swin",
            scheme=("biases", "swin-index"),
            layer_type=f"stage {stage}",
            parameters=parameters,
            facts={"table": [heads, side * side], "stage": stage},
            notes=("the step to the next stage has biases of its own, from every second patch to all",),
            addresses={"tables": address},
        )
        side = (side - 1) // 2 + 1
