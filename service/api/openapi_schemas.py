"""The component schemas of the OpenAPI document that follow from a scheme: its answer, choices, tensors and body."""

from functools import cache
from itertools import chain

from service.api.openapi_shared import NUMBERS, OBJECT, SHARED, TEXTS, Schema, ref
from service.api.parameters import answered_schema, listed_schema, structured_schema
from service.api.variations import AnyScheme, choices, variations
from service.engine import SCHEMES
from service.engine.attention.relative import QueryKeyPositions
from service.engine.positions import POSITIONS_INPUT, Positioned
from service.engine.rotation.patches import OF_GRIDS


def pascal(*words: str) -> str:
    """A component's name.

    >>> pascal("biases", "alibi-slopes", "answer")
    'BiasesAlibiSlopesAnswer'
    """
    parts = chain.from_iterable(word.replace("-", "_").split("_") for word in words)
    return "".join(part[:1].upper() + part[1:] for part in parts)


def schemas() -> Schema:
    """Every component schema."""
    return SHARED | {name: schema for scheme in SCHEMES for name, schema in of_scheme(scheme).items()}


def of_scheme(scheme: AnyScheme) -> Schema:
    """A scheme's own components: named choices, answer, parameters as answered, tensors, and the body it takes."""
    name = pascal(scheme.family, scheme.name)
    found = {pascal(name, choice): schema for choice, schema in choices(scheme).items()}
    found[f"{name}Parameters"] = _answered(scheme, name)
    found[f"{name}Tensors"] = _tensors(scheme)
    found[f"{name}Answer"] = _answer(scheme, name)
    if scheme.presets:
        found[f"{name}Preset"] = {"type": "string", "enum": list(scheme.presets)}
    if has_several(scheme):
        found[f"{name}Tensor"] = {"type": "string", "enum": tensor_names(scheme)}
    if scheme.takes_body:
        found[f"{name}Body"] = _body(scheme)
    return found | structured_schema(scheme, name)[1]


def _answered(scheme: AnyScheme, name: str) -> Schema:
    whole = answered_schema(scheme)
    for choice in choices(scheme):
        given = whole["properties"][choice]
        reference = ref(pascal(name, choice))
        shape = {"anyOf": [reference, {"type": "null"}]} if None in given["enum"] else reference
        whole["properties"][choice] = shape | {"description": given["description"]}
    for schema in whole["properties"].values():
        schema.pop("default", None)
    whole["properties"] |= structured_schema(scheme, name)[0]
    described = "Every parameter, defaults filled in; null for what was left out."
    if scheme.pasted is not None:
        # One object with optional members: of a choice between two, clients in many languages make nothing usable.
        whole["properties"] |= _layers(name)
        del whole["required"]
        described += " Where a pasted block holds one object for each type of layer: layers and without, and no other."
    return whole | {"description": described}


def _answer(scheme: AnyScheme, name: str) -> Schema:
    properties = {
        "family": {"const": scheme.family, "type": "string"},
        "scheme": {"const": scheme.name, "type": "string"},
        "revision": {"type": "integer", "description": "Changes whenever the numbers of the scheme would."},
        "parameters": ref(f"{name}Parameters"),
        "facts": {"type": "object", "additionalProperties": True, "description": "What follows from the parameters."},
        "notes": {**TEXTS, "description": "What deserves saying about this convention."},
        "tensors": ref(f"{name}Tensors"),
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _layers(name: str) -> Schema:
    layers = {"type": "object", "additionalProperties": ref(f"{name}Parameters")}
    return {
        "layers": layers | {"description": "The parameters of each type of layer."},
        "without": {**TEXTS, "description": "Types of layer that have no encoding."},
    }


def _tensors(scheme: AnyScheme) -> Schema:
    properties = {name: ref("Tensor") for name in tensor_names(scheme)}
    description = "By name, in this order; which of them there are depends on the parameters."
    more: Schema = {"additionalProperties": False}
    if scheme.pasted is not None:
        more = {"additionalProperties": ref("Tensor")}
        description += (
            f" Of several types of layer: each under the type's name too, as `layer.{next(iter(properties))}`."
        )
    return {"type": "object", "properties": properties, **more, "description": description}


def tensor_names(scheme: AnyScheme) -> list[str]:
    """Every tensor that a scheme can answer with: those of its examples, varied by each named choice."""
    return list(dict.fromkeys(chain.from_iterable(_names(scheme))))


def has_several(scheme: AnyScheme) -> bool:
    """Whether one answer can hold several tensors."""
    return any(len(names) > 1 for names in _names(scheme))


@cache
def _names(scheme: AnyScheme) -> list[tuple[str, ...]]:
    """The names of the tensors of each answer that is unlike the others."""
    return list(dict.fromkeys(tuple(tensors) for tensors in variations(scheme)))


def _body(scheme: AnyScheme) -> Schema:
    positions = [array for array in scheme.inputs if array.name == POSITIONS_INPUT.name]
    others = [array for array in scheme.inputs if array.name != POSITIONS_INPUT.name]
    properties: Schema = structured_schema(scheme, pascal(scheme.family, scheme.name))[0]
    if others:
        properties["tensors"] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {array.name: {**NUMBERS, "description": array.description} for array in others},
            "required": [array.name for array in others if array.required],
            **({"minProperties": 1} if scheme.alternatives else {}),
        }
    properties |= listed_schema(scheme)
    for array in positions:
        properties[array.name] = {**NUMBERS, "description": array.description}
    if scheme.pasted is not None:
        properties |= {name: {**OBJECT, "description": scheme.pasted.description} for name in scheme.pasted.names}
    whole = {"type": "object", "additionalProperties": False, "properties": properties}
    return whole | _leading(scheme)


def _leading(scheme: AnyScheme) -> Schema:
    """What a body cannot do without: structured parameters, required tensors, or else the scheme's first array, a
    pasted object or a list.
    """
    if scheme.structured:
        return {"required": list(scheme.structured)}
    needed = [array.name for array in scheme.inputs if array.required] or [scheme.inputs[0].name]
    if needed != [POSITIONS_INPUT.name]:
        return {"required": ["tensors"]}
    return {"minProperties": 1} if scheme.pasted or scheme.listed else {"required": ["positions"]}


def body_parameters(scheme: AnyScheme) -> list[str]:
    """The query parameters beside a body: positions in the body leave nothing for those in the address to say."""
    at_positions = not scheme.needs_body and any(array.name == "positions" for array in scheme.inputs)
    of_positions = {*Positioned.model_fields, *QueryKeyPositions.model_fields, *OF_GRIDS}
    left_out = of_positions if at_positions else set()
    return [name for name in scheme.params.model_fields if name not in left_out and name not in scheme.in_body]
