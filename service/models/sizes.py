"""Sizes of tables as the facts state them: a number, or what follows from keys of the configuration.

{"key": "d_model"}                           what the key says
{"key": "max_position_embeddings", "plus": 2}
{"key": "context_length", "or": "prediction_length", "less": "label_length"}   another key where it is null; minus a key
{"key": "hidden_size", "times": 2}, {"key": "hidden_size", "over": 2}
{"ratio": ["hidden_size", "num_attention_heads"]}
{"grid": ["image_size", "patch_size"], "plus": 1}   patches of a picture, and what stands before them
{"side": ["image_size", "patch_size"]}       patches along the first axis
{"first": "key"}, {"last": "key"}            of a list
{"square": "key"}, {"distances": "window_size"}     k * k, and 2 k - 1
{"sum": [...]}, {"product": [...]}           of sizes
{"part": "decoder_config", "key": "hidden_size"}    any of these, of a configuration within
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from service.engine.errors import Refusal
from service.models.known import model_type
from service.models.plan import Value
from service.models.reading import Reading, kind, whole

MOST_ROWS = 2**31 - 1


def size(reading: Reading, spec: Any) -> Value:
    """The size, and where it comes from: `class default` for a number that the model's code holds.

    >>> from service.models.known import model_type
    >>> vit = Reading({"image_size": 384}, "", model_type("vit"))
    >>> size(vit, {"grid": ["image_size", "patch_size"], "plus": 1})
    Value(value=577, source='rewritten', key='/image_size')
    """
    if not isinstance(spec, Mapping):
        return Value(spec, "class default", reading.where or "/")
    found = _term(_part(reading, spec["part"]) if "part" in spec else reading, spec)
    for word, step in _STEPS.items():
        if word in spec:
            found = found.replaced(step(found.value, spec[word]))
    if "less" in spec:
        found = _less(reading, found, spec["less"])
    least = -MOST_ROWS if spec.get("times", 1) < 0 else 0
    if not least <= found.value <= MOST_ROWS:
        name = found.key.rpartition("/")[2]
        raise Refusal(found.key, "out_of_range", f"{name} makes a table of {found.value} rows", limit=MOST_ROWS)
    return found


_STEPS: Mapping[str, Callable[[int, int], int]] = {
    "times": lambda value, by: value * by,
    "over": lambda value, by: value // by,
    "plus": lambda value, more: value + more,
}


def _less(reading: Reading, found: Value, key: str) -> Value:
    less = reading.needed(key, 0)
    if less.value > found.value:
        name = found.key.rpartition("/")[2]
        raise Refusal(less.key, "conflict", f"{key} is {less.value} and {name} {found.value}: it must not be longer")
    return found.replaced(found.value - less.value)


def _part(reading: Reading, key: str) -> Reading:
    """A configuration within, or what the class makes of none."""
    part, document = reading.type.parts[key], reading.object(key)
    given = part.get("given", {}) if document is None else {}
    return Reading(document or {}, reading.at(key), model_type(part["type"]), given)


def _term(reading: Reading, spec: Mapping[str, Any]) -> Value:  # noqa: PLR0911 - a line a word
    if "key" in spec:
        other = spec.get("or")
        return _stated(reading, other if other and reading.integer(spec["key"], 0) is None else spec["key"])
    if "ratio" in spec:
        whole_width, parts = (reading.needed(key) for key in spec["ratio"])
        return whole_width.replaced(whole_width.value // parts.value)
    if "square" in spec:
        side = reading.needed(spec["square"])
        return side.replaced(side.value**2)
    if "distances" in spec:
        window = reading.needed(spec["distances"])
        return window.replaced(2 * window.value - 1)
    for word, place in (("first", 0), ("last", -1)):
        if word in spec:
            key, listed = numbers(reading, spec[word])
            return Value(listed[place], "rewritten", key)
    if "grid" in spec:
        key, patches = grid(reading, *spec["grid"])
        return Value(prod(patches), "rewritten", key)
    for word, axis in (("side", 0), ("last_side", 1)):
        if word in spec:
            key, patches = grid(reading, *spec[word])
            return Value(patches[axis], "rewritten", key)
    word = "sum" if "sum" in spec else "product"
    terms = [size(reading, each) for each in spec[word]]
    values = [each.value for each in terms]
    return terms[0].replaced(sum(values) if word == "sum" else prod(values))


def _stated(reading: Reading, key: str) -> Value:
    """What a key says; 0 only where the class itself has 0."""
    found = reading.needed(key, 0)
    return (
        reading.needed(key) if found.value == 0 and found.source == "config" and reading.type.fields.get(key) else found
    )


def grid(reading: Reading, picture: str, patch: str) -> tuple[str, tuple[int, int]]:
    """(the key, patches along each axis) of a picture; both sizes may be one number or a list of one for each axis."""
    pictures, patches = (numbers(reading, key) for key in (picture, patch))
    for place, given in (pictures, patches):
        _refuse_axes(reading, place, given)
    long, short = (_plane(each[1]) for each in (pictures, patches))
    counts = long[0] // short[0], long[1] // short[1]
    if not all(counts):
        detail = f"{picture} {list(long)} is smaller than {patch} {list(short)}: the picture has no patch"
        raise Refusal(pictures[0], "conflict", detail)
    return pictures[0], counts


def _refuse_axes(reading: Reading, place: str, given: tuple[int, ...]) -> None:
    """Refuses a list of more axes than the class's own, which has frames beside height and width where it has three."""
    key = place.rpartition("/")[2]
    own = reading.type.fields.get(key, reading.given.get(key))
    most = max(2, len(own) if isinstance(own, (list, tuple)) else 1)
    if len(given) > most:
        needed = "one number, or height and width" if most == 2 else f"{most} numbers at most"
        raise Refusal(place, "shape", f"{key} has {len(given)} entries: {needed}", limit=most, requested=len(given))


def _plane(given: tuple[int, ...]) -> tuple[int, int]:
    """Height and width: the last two of a list, or one number twice."""
    return (given[-2], given[-1]) if len(given) > 1 else (given[0], given[0])


MOST_NUMBERS = 64


def numbers(reading: Reading, key: str, low: int = 1) -> tuple[str, tuple[int, ...]]:
    """(the key, what it holds) of a key that is a whole number or a list of them."""
    found = reading.find(key)
    if found is None or found.value is None:
        raise Refusal(reading.at(key), "missing", f"{key} is missing: {reading.type.name} cannot do without it")
    given = found.value if isinstance(found.value, (list, tuple)) else [found.value]
    own = reading.type.fields.get(key, reading.given.get(key))
    if len(given) == 1 and given is found.value and type(own) is int:
        # A class that has a number there takes a list for an entry for each axis.
        raise Refusal(found.key, "shape", f"{key} is a list of one entry; a number, or one for each axis, is needed")
    if not 1 <= len(given) <= MOST_NUMBERS:
        detail = f"{key} is {kind(found.value)} of {len(given)}; 1 to {MOST_NUMBERS} whole numbers are needed"
        raise Refusal(found.key, "type", detail)
    return found.key, tuple(whole(Value(each, found.source, found.key), low).value for each in given)
