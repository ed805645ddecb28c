"""SAM's picture encoder and its kin: trained distances of rows and columns, of a window or of the whole picture."""

from collections.abc import Iterator
from dataclasses import replace

from service.models.addresses import ask
from service.models.context import Context
from service.models.families.uses import also, code, learned
from service.models.layer_rules import numbers_of
from service.models.plan import Use, Value
from service.models.reading import Reading
from service.models.sizes import grid

NOTE = (
    "queries, not scaled, times the row of each distance between {axis} are added to the scores: rows says which, from "
    "query minus key"
)


def sam_distances(reading: Reading, _context: Context) -> Iterator[Use]:
    """Two tables for the layers within windows, two for those that see the whole picture."""
    if not reading.flag("use_rel_pos"):
        return
    key, patches = grid(reading, "image_size", "patch_size")
    window = reading.needed("window_size", 0)
    listed = reading.list_of("global_attn_indexes")
    everywhere = set(numbers_of(listed)) if listed is not None else set()
    layers = range(reading.layers())
    whole = tuple(layer for layer in layers if layer in everywhere or not window.value)
    within = tuple(layer for layer in layers if layer not in whole)
    sizes = [
        ("window_attention", within, window, (window.value, window.value)),
        ("full_attention", whole, Value(list(patches), "rewritten", key), patches),
    ]
    for label, numbers, stated, sides in sizes:
        for axis, side in zip(("rows", "columns"), sides, strict=True):
            if numbers:
                yield replace(_along(reading, axis, side, stated.key), layer_type=label, layers=numbers)


def _along(reading: Reading, axis: str, side: int, key: str) -> Use:
    """The trained distances along one axis, and which of them each pair has."""
    width, heads = reading.needed("hidden_size"), reading.needed("num_attention_heads")
    table = [2 * side - 1, width.value // heads.value]
    use = learned(reading, "vision-tower", table, [NOTE.format(axis=axis)], key)
    most = Value(side - 1, "rewritten", key)
    reach = {"left": most, "right": most, "sign": code(reading, "query-key")}
    rows = ask("biases", "shaw", reach, length=str(side)).address()
    return also(replace(use, facts={**use.facts, "axis": axis}), rows=rows)
