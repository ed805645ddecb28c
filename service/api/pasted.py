"""Parameters pasted as a JSON object of another's making: in the query as JSON text, or beside the arrays of a body."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.api.problems import Problem, echo, unknown_name
from service.engine.errors import Refusal
from service.engine.layered import MOST_LAYERS
from service.engine.pasted import Pasted
from service.engine.scheme import Scheme
from service.formats.errors import Unreadable
from service.formats.json_reader import read_json

LAYER_TYPE = "layer_type"
CHOOSES = (
    "Which type of layer is meant, where a pasted block holds one object for each; without it all are answered, each "
    "tensor under the type's name and its own, as `full_attention.cos`."
)
# What names files and parts of files.
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Block:
    """A pasted object: what it was called, and where a fault in it is (`/name` in a body, `name` in the query)."""

    name: str
    where: str
    value: object

    def fault(self, key: str, code: str, detail: str) -> Problem:
        return Problem("invalid-parameters", detail, [{**self.place(key), "code": code, "detail": detail}])

    def place(self, key: str = "") -> dict[str, str]:
        """Where a key of it stands, as a problem names places."""
        if self.where == "body":
            return {"pointer": f"/{self.name}" + (f"/{key}" if key else "")}
        return {"parameter": self.name}


def query_names(scheme: Scheme[Any, Any]) -> dict[str, str]:
    """What an address may hold for a pasted object, and what it means."""
    if scheme.pasted is None:
        return {}
    text = f"{scheme.pasted.description} JSON, URL-encoded; in a JSON body it is a key of its own."
    return {**dict.fromkeys(scheme.pasted.names, text), LAYER_TYPE: CHOOSES}


def in_query(scheme: Scheme[Any, Any], pairs: dict[str, str]) -> list[Block]:
    """The blocks in a query, which they leave."""
    names = scheme.pasted.names if scheme.pasted else ()
    return [Block(name, "query", _json(name, pairs.pop(name))) for name in names if name in pairs]


def _json(name: str, text: str) -> object:
    try:
        return read_json(text.encode())
    except Unreadable as error:
        detail = f"{name} is not JSON that can be read: {error.detail}"
        raise Problem(
            "invalid-parameters", detail, [{"parameter": name, "code": error.code, "detail": detail}]
        ) from None


def in_body(given: Mapping[str, object]) -> list[Block]:
    """The blocks in a JSON body."""
    return [Block(name, "body", value) for name, value in given.items()]


@dataclass(frozen=True, slots=True)
class Stated:
    """The parameters that a pasted block stands for, and the keys of the block that they come from.

    `absent` has the keys that it could hold and does not, by the same names. `given` is what it holds, by its own keys,
    and `places` where.
    """

    block: Block | None
    parameters: dict[str, Any]
    keys: dict[str, str]
    absent: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def refuse_misfits(self, pasted: Pasted, width: int) -> None:
        """What decides no parameter must still fit a rotation of so many channels."""
        if self.block is None:
            return
        try:
            pasted.fits(self.given, width)
        except Refusal as error:
            raise _placed(self.block, self.places, error) from None

    def refuse_twice(self, pairs: Mapping[str, str]) -> None:
        """A parameter that stands in the query as well is given twice."""
        for name, key in self.keys.items():
            if self.block is not None and name in pairs:
                detail = f"{name} is given in the query, and in {self.block.name} as {key}; give it once"
                raise self.block.fault(key, "repeated", detail)

    def placed(self, problem: Problem) -> Problem:
        """The problem with faults in what the block stated pointing into the block."""
        return Problem(problem.slug, problem.detail, [self._placed(dict(fault)) for fault in problem.errors])

    def _placed(self, fault: dict[str, Any]) -> dict[str, Any]:
        name = fault.get("parameter", "")
        key = self.absent.get(name) if fault["code"] == "missing" else self.keys.get(name)
        if self.block is None or key is None:
            return fault
        del fault["parameter"]
        return self.block.place(key) | fault


NOTHING = Stated(None, {}, {})


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What a block says: for all layers, under the name "", or for each type of layer; and the types that have none."""

    layers: Mapping[str, Stated]
    without: tuple[str, ...] = ()


def unpacked(
    pasted: Pasted, blocks: list[Block], layer_type: str | None, chosen: Mapping[str, object] | None = None
) -> Unpacked:
    """The parameters that a block stands for, beside those that are `chosen` already; null stands for none."""
    blocks = [block for block in blocks if block.value is not None]
    if len(blocks) > 1:
        names = " and ".join(dict.fromkeys(block.name for block in blocks))
        raise blocks[1].fault("", "repeated", f"{names}: the same thing is given twice; give it once")
    if not blocks:
        if layer_type is not None:
            raise _nothing_to_choose()
        return Unpacked({"": NOTHING})
    (block,) = blocks
    given = pasted.spread(_object(block, block.value))
    layers = [key for key, value in given.items() if isinstance(value, dict) and key not in pasted.keys]
    if not layers:
        if layer_type is not None:
            raise _nothing_to_choose()
        return Unpacked({"": _stated(pasted, block, given, {})})
    # A null beside the objects is a type of layer without an encoding, unless it is a key that was left out.
    without = tuple(key for key, value in given.items() if value is None and key not in pasted.keys)
    common = {key: value for key, value in given.items() if value is not None and key not in layers}
    given = {key: _asked(pasted, value, chosen or {}) if key in layers else value for key, value in given.items()}
    if layer_type is None:
        _refuse_names(block, (*layers, *without))
        return Unpacked({name: _stated(pasted, block, common, given[name], name) for name in layers}, without)
    _refuse_layer(block, given, layers, layer_type)
    return Unpacked({"": _stated(pasted, block, common, given[layer_type], layer_type)})


def _object(block: Block, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise block.fault("", "type", f"{block.name} must be a JSON object, or null")
    return dict(value)


def _asked(pasted: Pasted, own: Mapping[str, Any], chosen: Mapping[str, object]) -> Mapping[str, Any]:
    """What is asked of the object of one type of layer."""
    idle = {key for key, (parameter, value) in pasted.outermost.items() if chosen.get(parameter) == value}
    return {key: value for key, value in own.items() if key not in idle}


def _stated(pasted: Pasted, block: Block, common: Mapping[str, Any], own: Mapping[str, Any], layer: str = "") -> Stated:
    """What is said in common and of one type of layer, and where."""
    flat = {**common, **own}
    places = {key: f"{_escaped(layer)}/{_escaped(key)}" if key in own else _escaped(key) for key in flat}
    _refuse_unknown(pasted, block, flat, places)
    try:
        parameters = pasted.parameters(flat)
    except Refusal as error:
        raise _placed(block, places, error) from None
    keys = {pasted.renamed.get(key, key): place for key, place in places.items()}
    within = f"{_escaped(layer)}/" if layer else ""
    absent = {key: within + key for key in pasted.keys if key not in flat}
    stated = {name: place for name, place in keys.items() if name in parameters}
    return Stated(block, parameters, stated, absent, flat, places)


def _placed(block: Block, places: Mapping[str, str], error: Refusal) -> Problem:
    """The refusal of a key, where it stands."""
    (fault,) = error.faults
    place = block.place(places[fault.parameter])
    numbers = {name: value for name in ("limit", "requested") if (value := getattr(fault, name)) is not None}
    return Problem(
        "invalid-parameters", fault.detail, [{**place, "code": fault.code, "detail": fault.detail, **numbers}]
    )


def _refuse_names(block: Block, layers: tuple[str, ...]) -> None:
    """Types of layer name tensors, and tensors name files."""
    if len(layers) > MOST_LAYERS:
        detail = f"{block.name} holds {len(layers)} types of layer; {MOST_LAYERS} will do"
        raise block.fault("", "too_large", detail)
    for layer in layers:
        if not _PLAIN.fullmatch(layer):
            detail = f"{echo(layer)!r} is to name tensors: up to 64 letters, digits, _ and - will do"
            raise block.fault(_escaped(layer), "value", detail)


def _refuse_layer(block: Block, given: Mapping[str, Any], layers: list[str], layer_type: str) -> None:
    if layer_type in given and given[layer_type] is None:
        raise block.fault(layer_type, "empty", f"{layer_type} is null: those layers have no rotary encoding")
    if layer_type not in layers:
        what = f"{LAYER_TYPE} is {echo(layer_type)}"
        fault = unknown_name(LAYER_TYPE, layer_type, layers[:24], what=what, code="choice")
        raise Problem("invalid-parameters", fault["detail"], [fault])


def _nothing_to_choose() -> Problem:
    detail = f"{LAYER_TYPE} chooses from a pasted block that holds one object for each type of layer: there is none"
    return Problem("invalid-parameters", detail, [{"parameter": LAYER_TYPE, "code": "conflict", "detail": detail}])


def _refuse_unknown(pasted: Pasted, block: Block, given: Mapping[str, Any], places: Mapping[str, str]) -> None:
    for key in given:
        if key not in pasted.keys:
            fault = unknown_name("", key, pasted.keys, what=f"{echo(key)} is not a key of {block.name}")
            near = f"; did you mean {fault['did_you_mean']}?" if "did_you_mean" in fault else ""
            del fault["parameter"]
            fault["detail"] = f"{echo(key)} is not a key of {block.name}{near}"
            raise Problem("invalid-parameters", fault["detail"], [block.place(places[key]) | fault])


def _escaped(key: str) -> str:
    return echo(key).replace("~", "~0").replace("/", "~1")
