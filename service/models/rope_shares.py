"""How much of a head turns, as the top of a file or the class says it: `partial_rotary_factor` by any of its names."""

from service.models.plan import Value
from service.models.reading import Reading, numeric
from service.models.told import Told


def share_of(reading: Reading, *, nested: bool) -> Value | None:
    """`partial_rotary_factor` from outside the block."""
    rule = reading.type.rule
    if nested and rule.get("block") in ("by-label", "sliding-base"):
        return None
    if reading.older("width") is not None:
        return None  # `parameters_of` has it
    if "partial_forced" in rule:
        return Value(rule["partial_forced"], "class default", reading.at("partial_rotary_factor"))
    key = reading.older("share") or rule.get("partial_key", "partial_rotary_factor")
    given = None if rule.get("partial_by_layer") else reading.document.get(key)
    lost = bool(rule.get("partial_lost") and reading.object("rope_scaling"))
    if given is not None and (lost or not rule.get("partial_lost")):
        return numeric(Value(given, "config", reading.at(key)))
    if given is None and key in reading.document and "partial" in rule and "partial_of" not in rule:
        return None  # null is not nothing: the class's own share is for a file without the key
    return _of_the_class(reading, key, lost=lost)


def _of_the_class(reading: Reading, key: str, *, lost: bool) -> Value | None:
    """The share where the file says nothing: of two widths, or the class's own."""
    rule = reading.type.rule
    width = rule.get("partial_of")
    if width and not lost:
        turned = reading.integer(width[0])
        parts = [reading.integer(each) for each in width[1:]]
        if turned is not None and all(parts):
            return turned.replaced(turned.value / sum(part.value for part in parts if part))
    own = reading.given.get(key, reading.type.fields.get(key))
    own = rule.get("partial") if own is None else own
    if own is not None and isinstance(reading.document, Told):
        reading.document.take(reading.at(key), key, own)
    return None if own is None else Value(own, "class default", reading.at(key))
