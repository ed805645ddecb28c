"""InternLM's own block of RoPE: `rotary` with a base and a type, `origin` or `dynamic`.

Read in the code that its repositories carry: a `dynamic` one grows beyond max_position_embeddings, by a
`scaling_factor` of 1 where there is none. Earlier code of the family has no such block, and does not scale.
"""

from collections.abc import Mapping

from service.engine.errors import Refusal
from service.models.nearest import echo, nearest
from service.models.plan import Value
from service.models.reading import Reading, kind
from service.models.rope_keys import Block, Keys, completed, object_at

KEY = "rotary"
TYPES: Mapping[str, str] = {"origin": "default", "dynamic": "dynamic"}
KEYS = ("base", "type", "scaling_factor")
WITHOUT = (
    "rotary is missing: earlier code of InternLM turns unscaled, as this does; later code assumes type "
    "dynamic, which differs beyond max_position_embeddings"
)


def rotary_block(reading: Reading) -> Block | None:
    """The block; None where the file has none."""
    given = object_at(reading, KEY)
    if given is None:
        return None
    for key, value in given.items():
        if key not in KEYS:
            near = nearest(key, KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(KEYS)}"
            raise Refusal(value.key, "unknown", f"{echo(key)} is no key of rotary{hint}")
    for key in KEYS[:2]:
        if key not in given or given[key].value is None:
            detail = f"{key} is missing in rotary: InternLM's code does not turn without it"
            raise Refusal(f"{reading.at(KEY)}/{key}", "missing", detail)
    named = _type(given["type"])
    block: Keys = {"rope_theta": given["base"], "rope_type": named}
    if named.value == "dynamic":
        block["factor"] = given.get("scaling_factor") or Value(
            1.0, "class default", f"{reading.at(KEY)}/scaling_factor"
        )
    return completed(reading, block, None, nested=False)


def _type(given: Value) -> Value:
    if not isinstance(given.value, str):
        raise Refusal(given.key, "type", f"the type is {kind(given.value)}; a string is needed")
    if given.value not in TYPES:
        near = nearest(given.value, TYPES, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise Refusal(given.key, "choice", f"{echo(given.value)} is none of rotary's types{hint}: {', '.join(TYPES)}")
    return given.replaced(TYPES[given.value])
