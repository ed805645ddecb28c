"""Models with tables of positions whose attention is local: windows by layer, beside the table of the tokens."""

from collections.abc import Iterator
from dataclasses import replace

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.uses import code
from service.models.layers import WITHOUT_ATTENTION, layer_types
from service.models.nearest import echo
from service.models.plan import Use, Value, Window
from service.models.reading import MOST_LAYERS, Reading, kind, whole
from service.models.windows import causal_mask, two_sided_mask

BOTH_WAYS = {"counting": "flash-left", "direction": "bidirectional"}
NOTE = "positions are in the embeddings: nothing is added to scores"


def _sliding(
    reading: Reading, context: Context, role: str, layers: tuple[int, ...] | None, window: Window, size: Value
) -> Use:
    more = BOTH_WAYS if window.kind == "bidirectional" else {}
    return Use(
        role=role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="none",
        layer_type="sliding_attention",
        layers=layers,
        window=window,
        notes=(NOTE,),
        addresses={"mask": ask("masks", "sliding", {"window": size}, length=context.length, **more).address()},
    )


def attention_windows(reading: Reading, context: Context) -> Iterator[Use]:
    """Longformer and LED's encoder: half of `attention_window` on either side, one size or one for each layer."""
    role = "encoder-attention" if reading.type.name == "led" else "text-attention"
    found = reading.find("attention_window") or code(reading, 512)
    listed = found.value if isinstance(found.value, list) else None
    count = reading.integer("num_hidden_layers", 1, MOST_LAYERS)
    if listed is not None and count is not None and len(listed) != count.value:
        detail = f"attention_window has {len(listed)} entries for {count.value} layers: one for each is needed"
        raise Refusal(found.key, "shape", detail, limit=count.value, requested=len(listed))
    if listed is None:
        listed = [found.value] * (count.value if count else 1)
    whole_key = not isinstance(found.value, list)
    places = [found.key if whole_key else f"{found.key}/{layer}" for layer in range(len(listed))]
    by_size: dict[int, list[int]] = {}
    for layer, each in enumerate(listed):
        size = whole(Value(each, found.source, places[layer]), 2).value
        if size % 2:
            detail = f"attention_window is {size}: half of it is on either side, so it must be even"
            raise Refusal(places[layer], "odd", detail)
        by_size.setdefault(size, []).append(layer)
    for size, layers in by_size.items():
        half = Value(size // 2, "rewritten", places[layers[0]])
        numbered = tuple(layers) if count else None
        yield _sliding(reading, context, role, numbered, Window("bidirectional", half.value), half)


def gpt_neo(reading: Reading, context: Context) -> Iterator[Use]:
    """GPT-Neo: global and local layers in turn, as `attention_types` says: [[["global", "local"], 12]]."""
    kinds = _kinds(reading)
    layers = {name: tuple(place for place, each in enumerate(kinds) if each == name) for name in ("global", "local")}
    if layers["global"]:
        mask = ask("masks", "causal", {}, length=context.length).address()
        yield Use(
            role="text-attention",
            scope=reading.where,
            model_type=reading.type.name,
            encoding="none",
            layer_type="full_attention",
            layers=layers["global"],
            notes=(NOTE,),
            addresses={"mask": mask},
        )
    if layers["local"]:
        size = reading.needed("window_size")
        window = Window("sliding", size.value)
        yield _sliding(reading, context, "text-attention", layers["local"], window, size)


def _kinds(reading: Reading) -> list[str]:
    count = reading.layers()
    given = reading.list_of("attention_types")
    if given is None:
        if count % 2:
            where = reading.at("attention_types")
            raise Refusal(where, "missing", f"attention_types is missing, and {count} layers are no pairs of two")
        return ["global", "local"] * (count // 2)
    found: list[str] = []
    if len(given.value) > count:
        detail = f"attention_types has {len(given.value)} entries for {count} layers: each is about one or more"
        raise Refusal(given.key, "shape", detail, limit=count, requested=len(given.value))
    for place, item in enumerate(given.value):
        where = f"{given.key}/{place}"
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], list):
            raise Refusal(where, "type", f'an entry is {kind(item)}; [["global", "local"], 12] is the form of one')
        names, times = item[0], whole(Value(item[1], "config", f"{where}/1"), 1, MOST_LAYERS).value
        for name in names:
            if name not in ("global", "local"):
                raise Refusal(f"{where}/0", "choice", f"a kind of layer is {echo(name)}; global and local are known")
        if len(names) * times > MOST_LAYERS:
            detail = f"an entry makes {len(names) * times} layers; {MOST_LAYERS} at most"
            raise Refusal(where, "out_of_range", detail, limit=MOST_LAYERS)
        found += names * times
    if len(found) != count:
        detail = f"attention_types is about {len(found)} layers and num_layers is {count}"
        raise Refusal(given.key, "shape", detail, limit=count, requested=len(found))
    return found


def streaming(reading: Reading, context: Context) -> Iterator[Use]:
    """Moonshine's streaming encoder: each layer has a window of its own, [keys up to the query's, keys up to ahead]."""
    listed = reading.list_of("sliding_windows")
    given, count = [] if listed is None else listed.value, reading.layers()
    where = reading.at("sliding_windows")
    if len(given) < count:
        own = "" if reading.has("sliding_windows") else " that the class assumes"
        detail = f"num_hidden_layers is {count}, and sliding_windows{own} has {len(given)} entries: state one for each"
        place = where if reading.has("sliding_windows") else reading.at("num_hidden_layers")
        raise Refusal(place, "shape", detail, limit=count, requested=len(given))
    pairs = given[:count]  # layers take theirs by number: what is left over is read by nothing
    by_pair: dict[tuple[int, int], list[int]] = {}
    for layer, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2:
            raise Refusal(f"{where}/{layer}", "type", f"an entry is {kind(pair)}; two numbers, as [16, 4], are needed")
        behind, ahead = (
            whole(Value(each, "config", f"{where}/{layer}/{place}"), 1 - place).value for place, each in enumerate(pair)
        )
        by_pair.setdefault((behind - 1, max(0, ahead - 1)), []).append(layer)
    for (behind, ahead), layers in by_pair.items():
        window = Window("bidirectional", behind, ahead=ahead) if ahead else Window("sliding", behind + 1)
        size = Value(window.size, "rewritten", f"{where}/{layers[0]}")
        yield Use(
            role="audio-tower",
            scope=reading.where,
            model_type=reading.type.name,
            encoding="none",
            layer_type="sliding_attention",
            layers=tuple(layers),
            window=window,
            notes=("the order is in the convolutions before and in the windows: nothing is added and nothing turns",),
            addresses={"mask": two_sided_mask(replace(window, size=behind), size, context)},
        )


def hybrid(reading: Reading, context: Context) -> Iterator[Use]:
    """Attention without positions among layers that carry the order: state-space layers, linear attention."""
    labels = layer_types(reading) or []
    for label in dict.fromkeys(labels):
        attends = label not in WITHOUT_ATTENTION
        note = "attention without positions: the other layers carry the order" if attends else f"{label}: no attention"
        yield Use(
            role=context.role,
            scope=reading.where,
            model_type=reading.type.name,
            encoding="none",
            layer_type=label,
            layers=tuple(layer for layer, each in enumerate(labels) if each == label),
            notes=(note,),
            addresses={"mask": causal_mask(context)} if attends else {},
        )
