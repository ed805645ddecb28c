"""The record from which everything about a scheme follows.

A result is rows, and every row stands alone: a scheme says which tensors it answers with (before any work), prepares
a small state once, and computes any block of rows of any tensor from it. Routes, validation, sizes, ETags, streaming
and the catalogue are derived from this record and from nothing else.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from service.engine.pasted import Pasted

Array = NDArray[Any]
Inputs = Mapping[str, Array]
Facts = dict[str, float | int | str | list[float]]


class Params(BaseModel):
    """The parameters of a scheme: frozen, closed and finite."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=False, defer_build=True
    )


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a tensor will look like, known before any of it is computed.

    >>> bias = Tensor(("head", "query", "key"), (8, 3, 5), "float16")
    >>> bias.rows, bias.width, bias.nbytes
    (24, 5, 240)
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def rows(self) -> int:
        return prod(self.shape[:-1])

    @property
    def width(self) -> int:
        return self.shape[-1] if self.shape else 1

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * ITEMSIZE[self.dtype]


FLOATING: Mapping[str, int] = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
ITEMSIZE: Mapping[str, int] = {**FLOATING, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8, "bool": 1}

Tensors = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Input:
    """An array that the caller brings: the first one of a scheme is what a single npy holds.

    `values` says what it may hold: `numbers`, or `flags`, which are 0 and 1, or truth values.
    """

    name: str
    description: str
    required: bool = True
    values: Literal["numbers", "flags"] = "numbers"


@dataclass(frozen=True, slots=True)
class Example:
    """A request that works as it stands: the query, and for callers' arrays the JSON body."""

    title: str
    query: Mapping[str, str]
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Which parameter values give the convention of a library or model; `preset` is their name in an address."""

    who: str
    parameters: Mapping[str, str]
    preset: str = ""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Where a request's rows lie in a table without end, so that requests share rows.

    Requests with an equal `key` ask for rows of one table; row 0 of the request is row `start` of that table.
    """

    key: Hashable
    start: int


P = TypeVar("P", bound=Params)
S = TypeVar("S")


def unused(params: Params, names: tuple[str, ...], where: str) -> list[str]:
    """A note for each parameter that was given a value and has no effect there."""
    fields = type(params).model_fields
    given = [name for name in names if getattr(params, name) != fields[name].default]
    return [f"{name} has no effect with {where}" for name in given]


def altered(params: P, values: Mapping[str, Any]) -> P:
    """The parameters with those values; themselves where they have them already, for a copy takes ten microseconds.

    >>> from service.engine import by_key
    >>> given = by_key("encodings", "rope").params(dim=8)
    >>> altered(given, {"dim": 8}) is given, altered(given, {"dim": 6}).dim
    (True, 6)
    """
    if all(getattr(params, name) == value for name, value in values.items()):
        return params
    return params.model_copy(update=dict(values))


Rounding = Literal["correct", "faithful", "integer"]


def no_facts(_params: Any, _inputs: Inputs) -> Facts:
    return {}


def no_notes(_params: Any, _inputs: Inputs) -> list[str]:
    return []


def as_given(params: P, _inputs: Inputs) -> P:
    return params


def nothing_telling(_params: Any) -> tuple[str, ...]:
    return ()


def no_names(_params: Any) -> Mapping[str, tuple[str, ...]]:
    return {}


def no_lines(_params: Any) -> Mapping[str, float]:
    return {}


def no_uniform(_params: Any) -> Mapping[str, float]:
    return {}


def no_state(_params: Any, _inputs: Inputs) -> None:
    """What schemes prepare whose rows follow from the parameters alone."""


def no_state_bytes(_params: Any, _inputs: Inputs) -> int:
    return 0


def no_sequence(_params: Any, _inputs: Inputs) -> Sequence | None:
    return None


def own_table(params: Params, inputs: Inputs) -> Sequence | None:
    """A table that no other parameters share, unless it is of the caller's arrays."""
    return None if inputs else Sequence(params, 0)


# Equal only to itself, so that what follows from a scheme can be kept by it.
@dataclass(frozen=True, kw_only=True, eq=False)
class Scheme(Generic[P, S]):
    """One encoding, bias, mask, analysis or operation.

    `explanation`                  what it is and what for, in plain words; `description` has the formula
    `tensors(params, inputs)`      name -> axes, shape, dtype, and every refusal that parameters alone allow
    `sequence(params, inputs)`     where its rows lie in an endless table, if they do (then blocks are shared)
    `prepare(params, inputs)`      small state, computed once and shared by all blocks
    `rows(params, inputs, state, tensor, start, stop)`  that block of the C-order rows, in the tensor's dtype
    `together(params, inputs, state, start, stop)`  that block of all its tensors, where that takes less than each by
                                   itself
    `resolve(params, inputs)`      the parameters with every default filled in that depends on others: two spellings of
                                   one request become equal, and the reply states what was used
    `instead`                      what to ask for where the whole would be too large
    `state_bytes(params, inputs)`  about how much memory the prepared state takes, so that shared states are bounded
    `pasted`                       a JSON object that parameters may be given as, in a JSON body or in the query
    `infinite`                     whether some parameters make infinities, which JSON cannot hold
    `alternatives`                 the arrays that are not required are alternatives: the body holds one of them
    `structured`                   parameters that are JSON objects or lists: stated in a JSON body, not in the query
    `named(params)`                what the indices of an axis are called, where they are no numbers
    `telling(params)`              parameters without which a picture does not say what it shows, be they the defaults
    `quantities`                   what the values of a tensor are, where its name does not say so: pictures have it
                                   beside heights, and show tensors of one quantity side by side with one scale
    `shares`                       tensors of parts of a whole, which pictures show in percent, from 0 to 100
    `lines(params)`                values that a picture of heights marks, by what they are
    `uniform(params)`              what each value of a tensor would be if all were alike, where that is what tells
    `listed`                       parameters that are lists: stated in the query or, where long, in a JSON body
    """

    family: str
    name: str
    title: str
    explanation: str
    description: str
    reference: str
    params: type[P]
    rounding: Rounding
    tensors: Callable[[P, Inputs], Tensors]
    prepare: Callable[[P, Inputs], S]
    rows: Callable[[P, Inputs, S, str, int, int], Array]
    examples: tuple[Example, ...]
    used_by: tuple[Usage, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1
    inputs: tuple[Input, ...] = ()
    facts: Callable[[P, Inputs], Facts] = no_facts
    notes: Callable[[P, Inputs], list[str]] = no_notes
    sequence: Callable[[P, Inputs], Sequence | None] = no_sequence
    state_bytes: Callable[[P, Inputs], int] = no_state_bytes
    together: Callable[[P, Inputs, S, int, int], dict[str, Array]] | None = None
    resolve: Callable[[P, Inputs], P] = as_given
    instead: str = ""
    infinite: bool = False
    pasted: Pasted | None = None
    alternatives: bool = False
    structured: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    named: Callable[[P], Mapping[str, tuple[str, ...]]] = no_names
    quantities: Mapping[str, str] = field(default_factory=dict)
    shares: tuple[str, ...] = ()
    telling: Callable[[P], tuple[str, ...]] = nothing_telling
    lines: Callable[[P], Mapping[str, float]] = no_lines
    uniform: Callable[[P], Mapping[str, float]] = no_uniform

    @property
    def key(self) -> tuple[str, str]:
        return (self.family, self.name)

    @property
    def needs_body(self) -> bool:
        return self.alternatives or bool(self.structured) or any(array.required for array in self.inputs)

    @property
    def takes_body(self) -> bool:
        return bool(self.inputs or self.in_body)

    @property
    def in_body(self) -> tuple[str, ...]:
        """The parameters that a JSON body states."""
        return (*self.structured, *self.listed)

    @property
    def presets(self) -> dict[str, Mapping[str, str]]:
        """The parameters of each usage that has a name.

        >>> from service.engine import by_key
        >>> by_key("encodings", "sinusoidal").presets["whisper"]
        {'layout': 'sin-cos', 'frequency_shift': '1', 'odd_width': 'refuse'}
        """
        return {usage.preset: usage.parameters for usage in self.used_by if usage.preset}

    @property
    def required(self) -> list[str]:
        """The parameters that no address can do without: they have no default, and no preset gives them."""
        given = {name for parameters in self.presets.values() for name in parameters}
        return [name for name, field in self.params.model_fields.items() if field.is_required() and name not in given]


def whole(scheme: Scheme[P, S], params: P, inputs: Inputs | None = None) -> dict[str, Array]:
    """Every tensor of a scheme, whole: for tests, notebooks and small analyses.

    >>> from service.engine import by_key
    >>> sinusoidal = by_key("encodings", "sinusoidal")
    >>> whole(sinusoidal, sinusoidal.params(length=2, dim=4))["encoding"].round(4).tolist()[0]
    [0.0, 1.0, 0.0, 1.0]
    """
    arrays = inputs or {}
    tensors = scheme.tensors(params, arrays)
    state = scheme.prepare(params, arrays)
    return {
        name: np.asarray(scheme.rows(params, arrays, state, name, 0, spec.rows)).reshape(spec.shape)
        for name, spec in tensors.items()
    }
