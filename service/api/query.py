"""The query, read from its raw bytes: nothing is ignored, repeated or guessed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_args
from urllib.parse import unquote_plus

from pydantic import ValidationError

from service.api.pasted import LAYER_TYPE, NOTHING, Block, Stated, Unpacked, in_query, query_names, unpacked
from service.api.problems import (
    MOST_ERRORS,
    Problem,
    echo,
    from_body_validation,
    from_refusal,
    from_validation,
    unknown_name,
)
from service.engine.errors import Refusal
from service.engine.layered import Layered
from service.engine.pasted import Pasted
from service.engine.scheme import Params, Scheme, Tensors
from service.formats.format import Nonfinite, PictureWidth, Theme

REPLY_PARAMETERS = {
    "revision": "The revision of the scheme that the caller relies on; the answer is then cacheable for a year.",
    "tensor": "One tensor of several, by name.",
    "theme": "The colours of a picture (`.png`, `.svg`): `light` or `dark`.",
    "picture_width": "How wide a picture is: `wide` for a page, `narrow` for a phone, with letters of one size.",
    "nonfinite": "What JSON does with infinities and NaN: `refuse` (406), or `string` to write them as strings.",
}
PRESET = "The convention of a library or model by name: its parameters, of which those in the address take precedence."


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query says: the scheme's parameters, and how the reply is wanted."""

    params: Params
    pinned: bool
    tensor: str | None
    nonfinite: Nonfinite
    theme: Theme
    picture_width: PictureWidth
    stated: Mapping[str, Stated] = field(default_factory=dict)

    def refuse_misfits(self, pasted: Pasted | None, params: Params) -> None:
        """What a pasted block says beside parameters must fit the rotation that these, with all filled in, make."""
        for layer, stated in self.stated.items():
            own = params.layers[layer] if isinstance(params, Layered) else params
            width = getattr(own, "rotary_dim", None)
            if pasted is not None and width is not None:
                stated.refuse_misfits(pasted, width)

    @contextmanager
    def placed(self) -> Iterator[None]:
        """What is refused of a pasted block is refused where it stands there."""
        try:
            yield
        except Refusal as refusal:
            stated = self.stated.get(refusal.faults[0].layer, NOTHING)
            raise stated.placed(from_refusal(refusal)) from None


def read_pairs(raw: bytes) -> dict[str, str]:
    """Names and values of a raw query; refuses repeats, empty names, missing values and what is not UTF-8."""
    pairs: dict[str, str] = {}
    repeated: list[str] = []
    for part in raw.decode("latin-1").split("&") if raw else ():
        name, equals, value = _decoded(part)
        if not name or not equals:
            raise Problem("bad-request", f"{echo(part)!r} in the query is not name=value")
        if name in pairs:
            repeated.append(name)
        pairs[name] = value
    if repeated:
        faults = [
            {
                "parameter": echo(name),
                "code": "repeated",
                "detail": f"{echo(name)} is given more than once; give it once",
            }
            for name in dict.fromkeys(repeated)
        ]
        raise Problem("invalid-parameters", str(faults[0]["detail"]), faults)
    return pairs


def _decoded(part: str) -> tuple[str, str, str]:
    name, equals, value = part.partition("=")
    try:
        # The query travels as ASCII; bytes beyond it must have been percent-encoded.
        part.encode("ascii")
        return unquote_plus(name, errors="strict"), equals, unquote_plus(value, errors="strict")
    except UnicodeError:
        raise Problem("bad-request", "the query holds bytes that are not percent-encoded UTF-8") from None


def textual(scheme: Scheme[Any, Any]) -> dict[str, str]:
    """What JSON implies: its numbers have no number format of their own, and are float32 where that would decide."""
    field = scheme.params.model_fields.get("dtype")
    return {"dtype": "float32"} if field is not None and field.default is None else {}


def read_asked(
    scheme: Scheme[Any, Any],
    raw: bytes,
    assumed: Mapping[str, str] | None = None,
    blocks: Sequence[Block] | None = None,
) -> Asked:
    """The query of a scheme's address. `assumed` fills in parameters that the body decides; `blocks` are the pasted
    objects of a body, None while it is still to be read."""
    pairs = read_pairs(raw)
    _refuse_unknown(scheme, pairs)
    reply = {name: pairs.pop(name) for name in REPLY_PARAMETERS if name in pairs}
    preset = _preset(scheme, pairs.pop("preset")) if "preset" in pairs else {}
    params, stated = _params(scheme, {**(assumed or {}), **preset}, pairs, blocks)
    return Asked(
        params,
        _pinned(scheme, reply.get("revision")),
        reply.get("tensor"),
        _chosen("nonfinite", reply.get("nonfinite"), Nonfinite),
        _chosen("theme", reply.get("theme"), Theme),
        _chosen("picture_width", reply.get("picture_width"), PictureWidth),
        stated,
    )


def _params(
    scheme: Scheme[Any, Any], beneath: Mapping[str, str], pairs: dict[str, str], blocks: Sequence[Block] | None
) -> tuple[Params, Mapping[str, Stated]]:
    """The parameters of the query and of a pasted block, over those that are assumed; and what the block states."""
    found = Unpacked({"": NOTHING})
    if scheme.pasted is not None:
        inside = in_query(scheme, pairs)
        layer_type = pairs.pop(LAYER_TYPE, None)
        if blocks is not None or inside:
            found = unpacked(scheme.pasted, [*inside, *(blocks or ())], layer_type, {**beneath, **pairs})
    layers = {name: _validated(scheme, {**beneath, **stated.parameters, **pairs}, stated, pairs)
              for name, stated in found.layers.items()}  # fmt: skip
    return layers[""] if "" in layers else Layered(layers=layers, without=found.without), found.layers


def _validated(scheme: Scheme[Any, Any], given: Mapping[str, Any], stated: Stated, pairs: Mapping[str, str]) -> Params:
    stated.refuse_twice(pairs)
    try:
        params: Params = scheme.params.model_validate(given)
    except ValidationError as error:
        raise stated.placed(from_validation(error, scheme.params)) from None
    return params


def _preset(scheme: Scheme[Any, Any], name: str) -> Mapping[str, str]:
    presets = scheme.presets
    if name in presets:
        return presets[name]
    fault = unknown_name("preset", name, presets, what=f"preset is {echo(name)}", code="choice")
    raise Problem("invalid-parameters", fault["detail"], [fault])


def with_structured(scheme: Scheme[Any, Any], asked: Asked, given: Mapping[str, object]) -> Asked:
    """The same with the parameters that a JSON body states, validated together with those of the query."""
    if not given:
        return asked
    stated = {name: getattr(asked.params, name) for name in asked.params.model_fields_set}
    for name in given:
        if name in stated:
            detail = f"{name} is given in the address and in the body; give it once"
            raise Problem("invalid-parameters", detail, [{"parameter": name, "code": "repeated", "detail": detail}])
    try:
        return replace(asked, params=scheme.params.model_validate({**stated, **given}))
    except ValidationError as error:
        raise from_body_validation(error, given) from None


def _refuse_unknown(scheme: Scheme[Any, Any], pairs: Mapping[str, str]) -> None:
    for name in scheme.structured:
        if name in pairs:
            detail = f"{name} is a part of the JSON body, not of the query"
            raise Problem("invalid-parameters", detail, [{"parameter": name, "code": "unknown", "detail": detail}])
    own = [name for name in scheme.params.model_fields if name not in scheme.structured]
    preset = ["preset"] if scheme.presets else []
    known = [*own, *preset, *query_names(scheme), *REPLY_PARAMETERS]
    # Looking for the nearest name takes time: for as many as a problem lists, not for thousands.
    unknown = [name for name in pairs if name not in known][:MOST_ERRORS]
    faults = [
        unknown_name(echo(name), name, known, what=f"{echo(name)} is not a parameter of {scheme.family}/{scheme.name}")
        for name in unknown
    ]
    if faults:
        near = faults[0].get("did_you_mean")
        hint = f"did you mean {near}?" if near else "the errors list those that are"
        raise Problem(
            "invalid-parameters",
            f"{faults[0]['parameter']} is not a parameter of {scheme.family}/{scheme.name}; {hint}",
            faults,
        )


def _pinned(scheme: Scheme[Any, Any], revision: str | None) -> bool:
    if revision is None:
        return False
    if revision != str(scheme.revision):
        detail = f"revision is {echo(revision)}; this build computes revision {scheme.revision}"
        fault = {"parameter": "revision", "code": "revision", "detail": detail, "limit": scheme.revision}
        raise Problem("invalid-parameters", detail, [fault])
    return True


def _chosen(name: str, given: str | None, choices: Any) -> Any:
    """One of the choices of how a reply is wanted; the first where none is stated."""
    known: tuple[str, ...] = get_args(choices)
    if given is None or given in known:
        return given or known[0]
    fault = unknown_name(name, given, known, what=f"{name} is {echo(given)}", code="choice")
    raise Problem("invalid-parameters", fault["detail"], [fault])


def choose(tensors: Tensors, tensor: str | None) -> Tensors:
    """All tensors, or the one that `tensor=` names."""
    if tensor is None:
        return tensors
    if tensor in tensors:
        return {tensor: tensors[tensor]}
    fault = unknown_name("tensor", tensor, tensors, what=f"tensor is {echo(tensor)}", code="choice")
    raise Problem("invalid-parameters", fault["detail"], [fault])
