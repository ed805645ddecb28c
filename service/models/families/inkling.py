"""Inkling: no positions but distances, whose trained profiles the states of a query mix; a window in most layers."""

from collections.abc import Iterator

from service.engine.errors import Refusal
from service.models.addresses import ask
from service.models.context import Context
from service.models.families.uses import code
from service.models.layer_rules import numbers_of
from service.models.nearest import echo
from service.models.plan import Address, Use, Value, Window
from service.models.reading import Reading

SLIDING, FULL = "hybrid_sliding", "hybrid"
NOTE = (
    "a query's states mix the profiles, d_rel of them, into a bias for each distance: rows says which entry of a "
    "profile, from query minus key; the last row is nothing, for distances that no profile has"
)


def inkling(reading: Reading, context: Context) -> Iterator[Use]:
    """A use for the layers that see a window, and one for those that see all before them."""
    labels = _labels(reading)
    for label, key in ((SLIDING, "sliding_window_size"), (FULL, "rel_extent")):
        layers = tuple(layer for layer, each in enumerate(labels) if each == label)
        if layers:
            yield _of_kind(reading, context, label, layers, reading.needed(key))


def _labels(reading: Reading) -> list[str]:
    """The kind of every layer: listed, or by the numbers of those with a window, or each sixth without."""
    count = reading.layers()
    listed = reading.list_of("layer_types")
    if listed is not None:
        for place, each in enumerate(listed.value):
            if each not in (SLIDING, FULL):
                where = f"{listed.key}/{place}"
                raise Refusal(where, "choice", f"a kind of layer is {echo(each)}; {SLIDING} and {FULL} are known")
        if len(listed.value) != count:
            detail = f"layer_types has {len(listed.value)} entries for {count} layers"
            raise Refusal(listed.key, "shape", detail, limit=count, requested=len(listed.value))
        return list(listed.value)
    local = reading.list_of("local_layer_ids") if reading.type.name == "inkling_text" else None
    near = set(numbers_of(local)) if local is not None else {layer for layer in range(count) if (layer + 1) % 6}
    return [SLIDING if layer in near else FULL for layer in range(count)]


def _of_kind(reading: Reading, context: Context, label: str, layers: tuple[int, ...], extent: Value) -> Use:
    sliding = label == SLIDING
    reach = {"left": code(reading, 0), "right": extent.replaced(extent.value - 1)}
    rule = {"sign": code(reading, "query-key"), "beyond": code(reading, "zero-row")}
    name, limit = ("sliding", {"window": extent}) if sliding else ("causal", {})
    facts, grown = ({}, {}) if sliding else _temperature(reading, context)
    return Use(
        role=context.role,
        scope=reading.where,
        model_type=reading.type.name,
        encoding="relative",
        scheme=("biases", "shaw"),
        layer_type=label,
        layers=layers,
        parameters={**reach, **rule},
        facts={"table": [reading.needed("d_rel").value, extent.value], **facts},
        notes=(NOTE,),
        window=Window("sliding", extent.value) if sliding else None,
        addresses={
            "rows": ask("biases", "shaw", {**reach, **rule}, length=context.length).address(),
            "mask": ask("masks", name, limit, length=context.length).address(),
            **grown,
        },
    )


def _temperature(reading: Reading, context: Context) -> tuple[dict[str, str], dict[str, Address]]:
    """Queries and biases grow with the logarithm of the position behind a floor; not without one."""
    floor, scale = reading.integer("log_scaling_n_floor"), reading.number("log_scaling_alpha")
    if floor is None or scale is None:
        return {}, {}
    given = {"schedule": code(reading, "inkling2"), "floor_scale": floor, "attn_scale": scale}
    address = ask("encodings", "temperature", given, length=context.length).address()
    formula = "1 + log_scaling_alpha ln(max((p + 1) / log_scaling_n_floor, 1)), of queries and of biases"
    return {"temperature": formula}, {"temperature": address}
